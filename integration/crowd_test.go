//go:build proof

package integration

import "testing"

func TestTwoHundredJobsNameTheSame(t *testing.T)      { jobsNameTheSame(t, 200) }
func TestFiveThousandNamesInOneDocument(t *testing.T) { namesInOneDocument(t, 5000) }
