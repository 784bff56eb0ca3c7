#!/bin/sh
# Draws the icon in the sizes that the bundles take. Needs rsvg-convert (librsvg2-bin).
set -eu
cd "$(dirname "$0")"
draw() { rsvg-convert --width "$1" --height "$1" --output "$2" icon.svg; }
draw 32 32x32.png
draw 128 128x128.png
draw 256 128x128@2x.png
draw 512 icon.png
cp icon.svg ../../app/ui/icon.svg # The page has the same one.
