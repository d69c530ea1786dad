# Prints what a testbed could leave on a machine, one fact a line, but for what
# the machine itself changes while it runs.
export LC_ALL=C
# What the packages have put below /usr and /boot is left out, for its size.
find / /usr -xdev -maxdepth 1 -printf 'file %p\n'
find /etc /home /opt /root /srv /usr/local /var -xdev \
	\( -path /var/log -o -path /var/cache -o -path /var/lib/dpkg -o -path /var/lib/systemd -o -path /var/lib/sudo \) -prune \
	-o -printf 'file %p %M %U %G %l\n'
find /etc /root /home -xdev -type f -exec sha256sum {} + | sed 's/^/content /'
find /run /tmp -maxdepth 1 ! -name sudo ! -name user -printf 'file %p\n'
find /var/log -name '*.log' -printf 'file %p\n'
systemctl list-unit-files --no-legend --no-pager | awk '{print "unit file", $1, $2}'
systemctl list-units --all --no-legend --no-pager --plain --type=service,timer,socket | awk '$1 !~ /^(user|session|systemd-|modprobe|dev-)/ {print "unit", $1, $2, $3}'
tc qdisc show | sed 's/^/qdisc /'
tc filter show dev eth1 | sed 's/^/filter /'
ip -o link | awk '{print "link", $2}'
ip -o address | awk '{print "address", $2, $3, $4}'
ip route show table all | grep -v ' proto kernel ' | sed 's/^/route /'
ip rule | sed 's/^/rule /'
nft list ruleset | sed 's/^/nft /'
ps -eo args= | awk '/testbed|nebula|k3s|containerd/ && !/awk/ {print "process", $0}'
find /sys/fs/cgroup -maxdepth 2 -type d ! -path '*user*' ! -path '*session*' ! -path '*modprobe*' ! -path '*systemd-*' ! -name '*.mount' -printf 'cgroup %p\n'
for setting in net.ipv4.ip_forward net.ipv4.conf.all.rp_filter net.bridge.bridge-nf-call-iptables; do
	echo "setting $setting $(sysctl -n $setting 2>/dev/null)"
done
