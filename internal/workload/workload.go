// Package workload waits for Deployments, and says why one does not come up in
// the words of its pods: their state, their events and their last log lines.
package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// explainTime bounds the questions that are asked after a wait has ended.
const explainTime = 10 * time.Second

// Ref names a Deployment.
func Ref(namespace, name string) kube.Ref {
	return kube.Ref{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: name}
}

// AwaitAvailable waits until the Deployment runs as it is specified now and is
// available, and until also, when given, accepts it. When ctx ends first, or an
// image cannot be had, which is an *ImageError, the error says what its pods
// lack.
func AwaitAvailable(ctx context.Context, cluster *kube.Client, namespace, name string, also func(*unstructured.Unstructured) (ok bool, why string)) error {
	waiting, say, end := Patient(ctx)
	defer end()
	_, err := cluster.Wait(waiting, Ref(namespace, name), "available", func(deployment *unstructured.Unstructured) (bool, string) {
		if also != nil {
			if ok, why := also(deployment); !ok {
				return false, why
			}
		}
		ok, why := Available(deployment)
		if !ok {
			say(lackingImage(waiting, cluster, deployment))
		}
		return ok, why
	})
	if err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	return Explain(ctx, cluster, namespace, name, err)
}

// Available reports whether all replicas of a Deployment run as specified and
// are available, and if not, what is missing.
func Available(deployment *unstructured.Unstructured) (ok bool, why string) {
	generation := deployment.GetGeneration()
	observed, _, _ := unstructured.NestedInt64(deployment.Object, "status", "observedGeneration")
	if observed < generation {
		return false, "its latest change is not taken up yet"
	}
	wanted, found, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
	if !found {
		wanted = 1
	}
	count := func(field string) int64 {
		n, _, _ := unstructured.NestedInt64(deployment.Object, "status", field)
		return n
	}
	switch {
	case count("updatedReplicas") < wanted:
		return false, fmt.Sprintf("%d of %d replicas are made", count("updatedReplicas"), wanted)
	case count("replicas") > wanted:
		return false, "replicas of the former specification still end"
	case count("availableReplicas") < wanted:
		return false, fmt.Sprintf("%d of %d replicas are available", count("availableReplicas"), wanted)
	}
	return true, ""
}

// Up tells whether a replica of a Deployment is available, and if not, how many
// it is to have. One that somebody scaled to none is Available and not up.
func Up(deployment *unstructured.Unstructured) (ok bool, why string) {
	available, _, _ := unstructured.NestedInt64(deployment.Object, "status", "availableReplicas")
	wanted, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
	return available > 0, fmt.Sprintf("none of its %d replicas is available", wanted)
}

// Explain adds to err what the pods of a Deployment lack. It asks the cluster
// even when ctx has ended, for a short time.
func Explain(ctx context.Context, cluster *kube.Client, namespace, name string, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
	defer cancel()
	deployment, getErr := cluster.Get(ctx, Ref(namespace, name))
	if getErr != nil {
		return err
	}
	labels, _, _ := unstructured.NestedStringMap(deployment.Object, "spec", "selector", "matchLabels")
	pods, listErr := cluster.List(ctx, "v1", "Pod", namespace, Selector(labels))
	if listErr != nil {
		return err
	}
	if len(pods) == 0 {
		return fmt.Errorf("%w; it has no pod", err)
	}
	var text strings.Builder
	for i := range pods {
		if kube.ConditionOf(&pods[i], "Ready").True() {
			continue
		}
		text.WriteString("\npod " + pods[i].GetName() + ": " + State(&pods[i]))
		text.WriteString(events(ctx, cluster, &pods[i]))
		text.WriteString(logs(ctx, cluster, &pods[i]))
	}
	return fmt.Errorf("%w%s", err, text.String())
}

// Selector renders labels as a label selector.
func Selector(labels map[string]string) string {
	terms := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		terms = append(terms, key+"="+labels[key])
	}
	return strings.Join(terms, ",")
}

// State says in one line what a pod is doing and what it waits for, and what
// to do where that is known.
func State(pod *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	parts := []string{strings.ToLower(phase)}
	if scheduled := kube.ConditionOf(pod, "PodScheduled"); scheduled.Status == "False" {
		parts = append(parts, "not scheduled: "+scheduled.Message)
	}
	statuses, _, _ := unstructured.NestedSlice(pod.Object, "status", "containerStatuses")
	for _, status := range statuses {
		c, _ := status.(map[string]any)
		name, _ := c["name"].(string)
		if reason, message := nested(c, "state", "waiting"); reason != "" {
			parts = append(parts, describe(name, "waits", reason, message)+advice(reason))
		}
		if reason, message := nested(c, "state", "terminated"); reason != "" {
			parts = append(parts, describe(name, "ended", reason, message))
		} else if reason, message := nested(c, "lastState", "terminated"); reason != "" {
			parts = append(parts, describe(name, "ended before", reason, message))
		}
	}
	return strings.Join(parts, "; ")
}

func nested(status map[string]any, fields ...string) (reason, message string) {
	reason, _, _ = unstructured.NestedString(status, append(fields, "reason")...)
	message, _, _ = unstructured.NestedString(status, append(fields, "message")...)
	return reason, message
}

func describe(container, verb, reason, message string) string {
	text := fmt.Sprintf("container %s %s: %s", container, verb, reason)
	if message = strings.TrimSpace(message); message != "" {
		text += " (" + message + ")"
	}
	return text
}

func advice(reason string) string {
	switch reason {
	case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull":
		return "; check the image's registry and tag, or hand its archive to the cluster when the node has no internet"
	case "InvalidImageName":
		return "; check the spelling of the image"
	case "CrashLoopBackOff":
		return "; its log says why it ends"
	}
	return ""
}

// events returns the latest warnings about a pod, a line each.
func events(ctx context.Context, cluster *kube.Client, pod *unstructured.Unstructured) string {
	list, err := cluster.List(ctx, "v1", "Event", pod.GetNamespace(), "")
	if err != nil {
		return ""
	}
	var lines []string
	for _, event := range list {
		name, _, _ := unstructured.NestedString(event.Object, "involvedObject", "name")
		if name == pod.GetName() && event.Object["type"] == "Warning" {
			lines = append(lines, fmt.Sprintf("\n  event %v: %v", event.Object["reason"], event.Object["message"]))
		}
	}
	return strings.Join(lines[max(0, len(lines)-3):], "")
}

// logs returns the last lines of a pod's containers, indented.
func logs(ctx context.Context, cluster *kube.Client, pod *unstructured.Unstructured) string {
	var text strings.Builder
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	for _, container := range containers {
		c, _ := container.(map[string]any)
		name, _ := c["name"].(string)
		content, err := cluster.Logs(ctx, pod.GetNamespace(), pod.GetName(), name, 10)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(content)) {
			text.WriteString("\n  " + name + "> " + strings.TrimRight(line, "\n"))
		}
	}
	return text.String()
}
