/**
 * Tells whether a setting may stand twice in a section of a YAML text: where it does, Bun's parser
 * keeps the last one and says nothing. A quick look, since it is made at each start: what it finds
 * in a text of several lines is none, and a section in braces is passed over.
 */
export function mayRepeatSetting(text: string): boolean {
  const known = new Map<number, Set<string>>()
  for (const line of text.split('\n')) {
    const [, indent = '', dashes = '', , name] = LINE.exec(line) ?? []
    if (BLANK.test(line)) continue
    const column = indent.length + dashes.length
    for (const deeper of known.keys())
      if (deeper > indent.length || (dashes !== '' && deeper === column)) known.delete(deeper)
    if (name === undefined) continue
    const names = known.get(column) ?? new Set()
    if (names.has(name)) return true
    known.set(column, names.add(name))
  }
  return false
}

/** The indentation, the dashes of list items, and the name of a setting. */
const LINE = /^( *)((?:- +)*)(?:(["']?)([\w./:@$*-]+)\3 *:(?= |\r?$))?/
const BLANK = /^\s*(?:#|$)/
