#!/usr/bin/env bash
# image.sh FOLDER: makes the disk, the kernel and the keys of the VM lab in an
# empty folder. It takes root, a minute and Debian's packages.
set -euo pipefail
cd "$1"
packages=(
	systemd systemd-sysv dbus udev kmod procps
	openssh-server sudo
	iproute2 iputils-ping ethtool nftables iptables conntrack
	containerd runc containernetworking-plugins
	linux-image-cloud-amd64
)
include=$(IFS=, && echo "${packages[*]}")
mmdebstrap --quiet --mode=root --variant=minbase --include="$include" bookworm root

ssh-keygen -q -t ed25519 -N '' -C vm-lab -f id_ed25519
cp root/etc/ssh/ssh_host_ed25519_key.pub host_key.pub

# root and admin are what users have; guarded's sudo asks for the password
# "testbed", and stranger has no sudo.
chroot root useradd --create-home --shell /bin/bash admin
chroot root useradd --create-home --shell /bin/bash guarded
chroot root useradd --create-home --shell /bin/bash stranger
echo guarded:testbed | chroot root chpasswd --crypt-method SHA512
echo 'admin ALL=(ALL) NOPASSWD: ALL' >root/etc/sudoers.d/admin
echo 'guarded ALL=(ALL) ALL' >root/etc/sudoers.d/guarded
for home in root home/admin home/guarded home/stranger; do
	install -d -m 700 "root/$home/.ssh"
	install -m 600 id_ed25519.pub "root/$home/.ssh/authorized_keys"
	chown -R --reference="root/$home" "root/$home/.ssh"
done

# One network reaches sshd, through a port of this machine; the other is the
# machines' own. The hardware address says which machine it is.
cat >root/etc/systemd/network/10-control.network <<-END
	[Match]
	Name=eth0
	[Network]
	Address=10.0.2.15/24
	Gateway=10.0.2.2
	IPv6AcceptRA=no
END
for n in 1 2 3; do
	cat >root/etc/systemd/network/20-underlay-$n.network <<-END
		[Match]
		MACAddress=52:54:00:c6:12:0$n
		[Network]
		Address=198.18.77.$n/24
		Address=fd77::$n/64
		IPv6AcceptRA=no
	END
done
cat >root/etc/hosts <<-END
	127.0.0.1 localhost
	::1 localhost ip6-localhost ip6-loopback
	198.18.77.1 vm1
	198.18.77.2 vm2
	198.18.77.3 vm3
END
echo vm >root/etc/hostname
echo '/dev/vda / ext4 errors=remount-ro 0 1' >root/etc/fstab
: >root/etc/machine-id # the kernel's command line has it
rm -f root/etc/resolv.conf

chroot root systemctl --quiet enable systemd-networkd ssh
chroot root systemctl --quiet disable containerd
# What is of no use here takes long under emulation.
chroot root systemctl --quiet mask systemd-networkd-wait-online.service \
	apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
	e2scrub_reap.service getty@tty1.service serial-getty@ttyS0.service

mv root/boot/vmlinuz-* vmlinuz
mv root/boot/initrd.img-* initrd
mke2fs -q -t ext4 -d root disk.img 8G
rm -rf root
