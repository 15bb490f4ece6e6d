/** Longer lines are cut before they are looked at. */
const LONGEST_LINE = 1_000

const HEADING = /^#{1,6} \S/

/** The marks of Markdown (CommonMark 0.31), each of which other texts may have too. */
const MARKS = [
  HEADING,
  /^ {0,3}(```|~~~)/,
  /^ {0,3}[-*+] \S/,
  /^ {0,3}\d{1,9}[.)] \S/,
  /^ {0,3}> ?\S/,
  /^\|.*\|\s*$/,
  /!?\[[^\]]{1,200}\]\([^)\s]{1,400}\)/,
  /(\*\*|__)[^*_\s][^*_]{0,200}(\*\*|__)/,
  /^ {0,3}(-{3,}|\*{3,}|_{3,})\s*$/,
]

/**
 * Whether lines are Markdown: they begin with a heading and an empty line, or have marks of two
 * kinds. Scripts, whose comments look like headings, begin with `#!`.
 */
export function isMarkdown(lines: string[]): boolean {
  const [first = '', second = ''] = lines
  if (first.startsWith('#!')) return false
  if (HEADING.test(first) && second.trim() === '') return true
  const found = new Set<RegExp>()
  for (const line of lines) {
    const start = line.slice(0, LONGEST_LINE)
    for (const mark of MARKS) if (!found.has(mark) && mark.test(start)) found.add(mark)
    if (found.size > 1) return true
  }
  return false
}
