package report

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Command carries out "report DIR [DIR...] [-o OUT] [-title TITLE] [-formats
// LIST]": it writes the report of the runs in the folders and prints where it
// is. Flags may stand before and after folders.
func Command(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	flags.SetOutput(stdout)
	flags.Usage = func() {
		fmt.Fprintln(stdout, "Usage: terraform-provider-testbed report DIR [DIR...] [-o OUT] [-title TITLE] [-formats LIST]\n\n"+
			"Makes a report of the results folders of runs. Later runs are compared with the first one.")
		flags.PrintDefaults()
	}
	out := flags.String("o", "report", "folder to write the report to")
	title := flags.String("title", "", "title of the report; the names of the runs by default")
	formats := flags.String("formats", "", "formats with commas between them; all by default")
	var folders []string
	for {
		switch err := flags.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			return nil
		case err != nil:
			return err
		}
		if flags.NArg() == 0 {
			break
		}
		folders, args = append(folders, flags.Arg(0)), flags.Args()[1:]
	}
	if len(folders) == 0 {
		flags.Usage()
		return errors.New("name the results folder of a run")
	}
	options := Options{Title: *title}
	if *formats != "" {
		for _, format := range strings.Split(*formats, ",") {
			options.Formats = append(options.Formats, Format(format))
		}
	}
	files, err := Build(folders, options)
	if err != nil {
		return err
	}
	if err := Write(*out, files); err != nil {
		return err
	}
	where := *out
	if _, ok := files[Page]; ok {
		where = filepath.Join(where, Page)
	}
	_, err = fmt.Fprintf(stdout, "Report: %s, %d files\n", where, len(files))
	return err
}
