#!/bin/bash
# node.sh NAME DIR ADDRESS FILES: a machine in namespaces of its own, until
# standard input ends. FILES appears as /lab inside.
set -e
name=$1 dir=$2 address=$3 files=$4 root=$2/root groups=/sys/fs/cgroup
if [ -z "$INSIDE" ]; then
	if [ -e $groups/cgroup.controllers ]; then
		mkdir $groups/$name
		echo $$ > $groups/$name/cgroup.procs
	else
		for group in $groups/*/; do
			[ -e $group/cgroup.procs ] && ! [ -e $group/cgroup.controllers ] || continue
			mkdir $group/$name
			if [ -e $group/cpuset.cpus ]; then
				for file in cpuset.cpus cpuset.mems; do cat $group/$file > $group/$name/$file; done
			fi
			echo $$ > $group/$name/cgroup.procs
		done
	fi
	INSIDE=1 exec unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child "$0" "$@"
fi

mkdir -p $dir/{upper,work,root,lib}
mount --make-rprivate /
mount -t overlay -o lowerdir=/,upperdir=$dir/upper,workdir=$dir/work overlay $root
mount --bind $dir/lib $root/var/lib
mount -t tmpfs tmpfs $root/run
mount -t tmpfs tmpfs $root/tmp
mount -t sysfs sysfs $root/sys
mount --rbind /dev $root/dev
mount -t proc proc $root/proc
mount --bind $root/proc/sys $root/proc/sys
mount --bind $root/proc/sys/net $root/proc/sys/net
mount -o remount,bind,ro $root/proc/sys
# The kubelet sets these, though they are the machine's: it gets copies.
for setting in vm/overcommit_memory kernel/panic kernel/panic_on_oops; do
	copy=$root/run/${setting##*/}
	cat /proc/sys/$setting > $copy
	mount --bind $copy $root/proc/sys/$setting
done
if [ -e $groups/cgroup.controllers ]; then
	mount -t cgroup2 cgroup $root$groups
	mkdir $root$groups/init
	echo 0 > $root$groups/init/cgroup.procs
	echo +cpu +cpuset +memory +pids > $root$groups/cgroup.subtree_control
else
	mount -t tmpfs tmpfs $root$groups
	for group in $groups/*/; do
		controller=$(basename $group)
		[ -e $group/cgroup.procs ] && ! [ -e $group/cgroup.controllers ] || continue
		mkdir $root$groups/$controller
		[ $controller = systemd ] && controller=none,name=systemd
		mount -t cgroup -o $controller cgroup $root$groups/$(basename $group)
	done
fi
mkdir $root/lab
mount --bind $files $root/lab
cd $root
mkdir old
pivot_root . old
umount -l /old
mount --make-rshared /
hostname $name
ip link set lo up
ip link add uplink mtu 1300 type veth peer name far
ip address add $address/24 dev uplink
ip link set far up
ip link set uplink up
ip route add default dev uplink
echo ready
while read -r line; do :; done
