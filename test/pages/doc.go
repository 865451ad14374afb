// Package pages tries the pages that the product writes in headless Chromium: on a telephone and on a screen, light and
// dark, and by the rules of axe-core for accessibility.
package pages
