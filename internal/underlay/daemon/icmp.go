package daemon

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// unreachable builds the answer to a packet for an address that no host has:
// ICMP host unreachable, or its ICMPv6 twin, with the virtio header before it.
// It returns nil for packets that no error may answer. The error comes in the
// name of the absent host, since the network has no address of its own.
func unreachable(buffer []byte, p *packet) []byte {
	if p.ip[0]>>4 == 4 {
		return unreachable4(buffer, p.ip)
	}
	return unreachable6(buffer, p.ip)
}

func unreachable4(buffer, ip []byte) []byte {
	headers := int(ip[0]&0xf) * 4
	destination := ip[16:20]
	isFragment := binary.BigEndian.Uint16(ip[6:])&0x1fff != 0
	isError := ip[9] == unix.IPPROTO_ICMP && (len(ip) <= headers || ip[headers] != 8 && ip[headers] != 0)
	if isFragment || isError || destination[0] >= 224 || len(ip) < headers+8 {
		return nil
	}
	quoted := ip[:min(len(ip), 548)] // the error fits into 576 bytes
	out := buffer[:vnetLen+28+len(quoted)]
	clear(out[:vnetLen+28])
	answer := out[vnetLen:]
	answer[0] = 0x45
	binary.BigEndian.PutUint16(answer[2:], uint16(len(answer)))
	answer[8], answer[9] = 64, unix.IPPROTO_ICMP
	copy(answer[12:], destination)
	copy(answer[16:], ip[12:16])
	sealIPv4(answer)
	answer[20], answer[21] = 3, 1
	copy(answer[28:], quoted)
	binary.BigEndian.PutUint16(answer[22:], ^fold(sum(answer[20:], 0)))
	return out
}

func unreachable6(buffer, ip []byte) []byte {
	destination := ip[24:40]
	isError := ip[6] == unix.IPPROTO_ICMPV6 && (len(ip) <= 40 || ip[40] < 128)
	if isError || destination[0] == 0xff || ip[8] == 0xff {
		return nil
	}
	quoted := ip[:min(len(ip), 1232)] // the error fits into 1280 bytes
	out := buffer[:vnetLen+48+len(quoted)]
	clear(out[:vnetLen+48])
	answer := out[vnetLen:]
	answer[0] = 0x60
	length := len(answer) - 40
	binary.BigEndian.PutUint16(answer[4:], uint16(length))
	answer[6], answer[7] = unix.IPPROTO_ICMPV6, 64
	copy(answer[8:], destination)
	copy(answer[24:], ip[8:24])
	answer[40], answer[41] = 1, 3
	copy(answer[48:], quoted)
	binary.BigEndian.PutUint16(answer[42:], ^fold(sum(answer[40:], pseudoSum(answer, unix.IPPROTO_ICMPV6, length))))
	return out
}
