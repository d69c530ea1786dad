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
// is, and what the runs tell about the claims of the study. Flags may stand
// before and after folders.
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
	made, files, err := assemble(folders, options)
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
	if _, err := fmt.Fprintf(stdout, "Report: %s, %d files\n", where, len(files)); err != nil {
		return err
	}
	return made.printClaims(stdout)
}

// printClaims says in a few lines what the runs tell about the study's claims.
func (r *report) printClaims(out io.Writer) error {
	for _, run := range r.Runs {
		for _, c := range run.Claims() {
			if _, err := fmt.Fprintf(out, "%s, %s: %s\n  This %s: %s.\n", run.ID, c.Function, c.Statement, c.Verdict, strings.Join(c.Evidence, "; ")); err != nil {
				return err
			}
		}
	}
	return nil
}
