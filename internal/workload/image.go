package workload

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// ImageError says that pods wait for an image that their cluster cannot get.
type ImageError struct{ Image, Reason, Message string }

func (e *ImageError) Error() string {
	text := fmt.Sprintf("the image %s cannot be had: %s", e.Image, e.Reason)
	if e.Message != "" {
		text += " (" + e.Message + ")"
	}
	return text
}

// LackingImage returns an *ImageError about a container whose image its node has
// tried to get in vain, nil when there is none. It passes over pods that run
// another image by now: they are on their way out.
func LackingImage(pods []unstructured.Unstructured, wanted func(image string) bool) error {
	for i := range pods {
		containers, _, _ := unstructured.NestedSlice(pods[i].Object, "spec", "containers")
		images := map[string]string{}
		for _, entry := range containers {
			container, _ := entry.(map[string]any)
			name, _ := container["name"].(string)
			images[name], _ = container["image"].(string)
		}
		statuses, _, _ := unstructured.NestedSlice(pods[i].Object, "status", "containerStatuses")
		for _, entry := range statuses {
			status, _ := entry.(map[string]any)
			name, _ := status["name"].(string)
			reason, message := nested(status, "state", "waiting")
			if imageReasons[reason] && wanted(images[name]) {
				return &ImageError{images[name], reason, strings.TrimSpace(message)}
			}
		}
	}
	return nil
}

// imageReasons are those for which a container waits when its image cannot be
// had.
var imageReasons = map[string]bool{"ErrImagePull": true, "ImagePullBackOff": true, "ErrImageNeverPull": true, "InvalidImageName": true}

// patience is how long what has failed may go on failing before a wait for it
// ends: long enough for a node to try an image again.
const patience = 20 * time.Second

// Patient returns a context for a wait, and what that has to say at each look
// whether all goes well: when it has named failures for a while and nothing
// else, the context ends with the first of them as its cause.
func Patient(ctx context.Context) (waiting context.Context, say func(error), end func()) {
	waiting, giveUp := context.WithCancelCause(ctx)
	var failing *time.Timer
	say = func(err error) {
		switch {
		case err == nil && failing != nil:
			failing.Stop()
			failing = nil
		case err != nil && failing == nil:
			failing = time.AfterFunc(patience, func() { giveUp(err) })
		}
	}
	return waiting, say, func() {
		say(nil)
		giveUp(nil)
	}
}

// lackingImage is LackingImage about the pods of a Deployment.
func lackingImage(ctx context.Context, cluster *kube.Client, deployment *unstructured.Unstructured) error {
	labels, _, _ := unstructured.NestedStringMap(deployment.Object, "spec", "selector", "matchLabels")
	pods, err := cluster.List(ctx, "v1", "Pod", deployment.GetNamespace(), Selector(labels))
	if err != nil {
		return nil //nolint:nilerr // what cannot be found out is no failure
	}
	images := map[string]bool{}
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	for _, entry := range containers {
		container, _ := entry.(map[string]any)
		image, _ := container["image"].(string)
		images[image] = true
	}
	return LackingImage(pods, func(image string) bool { return images[image] })
}
