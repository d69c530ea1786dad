package server

// Version is what the stand-in calls itself: Kubernetes' version with a build
// suffix that no release of k3s has.
const Version = "v1.37.2+lab"

// The images that a server needs, as the air-gap tarball names them.
const (
	PauseImage   = "localhost/pause:lab"
	CoreDNSImage = "localhost/coredns:v1.15.0"
)
