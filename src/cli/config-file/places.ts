import {
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  type Scalar,
} from 'yaml'

/** Returns `:line:column` of the setting with these names; empty if the text does not have it. */
export type FindPlace = (names: string[]) => string

/**
 * Opens the places of a YAML text. A setting that is missing is where its section begins. A text
 * that is no YAML has one place: where that shows.
 */
export function openPlaces(text: string): FindPlace {
  const lines = new LineCounter()
  const { contents, errors } = parseDocument(text, { ...OPTIONS, lineCounter: lines })
  const renderPlace = (offset: number | undefined): string => {
    if (offset === undefined || text === '') return ''
    const { line, col } = lines.linePos(offset)
    return `:${line}:${col}`
  }
  const [error] = errors
  const place = error ? error.pos[0] : findRepeated(contents)?.range?.[0]
  if (place !== undefined) return () => renderPlace(place)
  return names => (names.length === 0 ? '' : renderPlace(findOffset(contents, names)))
}

/** Finds the first setting that stands twice in its section; undefined if none does. */
export function findRepeatedSetting(text: string): string | undefined {
  const repeated = findRepeated(parseDocument(text, OPTIONS).contents)
  const start = repeated?.range?.[0]
  return start === undefined ? undefined : text.slice(start).split(/[:\s]/, 1)[0]
}

// The library compares each name with all others of its section: 100,000 of them take minutes.
const OPTIONS = { logLevel: 'silent', uniqueKeys: false } as const

/** Finds the first name that stands twice in its section. */
function findRepeated(node: unknown): Scalar | undefined {
  const names = new Set<unknown>()
  for (const item of isMap(node) || isSeq(node) ? node.items : []) {
    if (isPair(item) && isScalar(item.key)) {
      if (names.has(item.key.value)) return item.key
      names.add(item.key.value)
    }
    const within = findRepeated(isPair(item) ? item.value : item)
    if (within) return within
  }
  return undefined
}

function findOffset(contents: unknown, names: string[]): number | undefined {
  let [node, offset] = [contents, undefined as number | undefined]
  for (const name of names) {
    const found = findMember(node, name)
    if (!found) return offset
    offset = found.at?.range?.[0] ?? offset
    node = found.value
  }
  return offset
}

/** A member of a section: the node where it begins, and its value. */
interface Member {
  at: Node | null
  value: unknown
}

function findMember(node: unknown, name: string): Member | undefined {
  if (isSeq(node)) {
    const item = node.items[Number(name)] as Node | undefined
    return item && { at: item, value: item }
  }
  if (!isMap(node)) return undefined
  const pair = node.items.find(item => isPair(item) && readKey(item.key) === name)
  return pair && { at: pair.key as Node, value: pair.value }
}

const readKey = (key: unknown): string => String(isScalar(key) ? key.value : key)
