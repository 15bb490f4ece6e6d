import { isMap, isPair, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml'

/** Returns `:line:column` of the setting with these names; empty if the text does not have it. */
export type FindPlace = (names: string[]) => string

/**
 * Opens the places of a YAML text. A setting that is missing is where its section begins. A text
 * that is no YAML has one place: where that shows.
 */
export function openPlaces(text: string): FindPlace {
  const lines = new LineCounter()
  const { contents, errors } = parseDocument(text, { lineCounter: lines, logLevel: 'silent' })
  const renderPlace = (offset: number | undefined): string => {
    if (offset === undefined || text === '') return ''
    const { line, col } = lines.linePos(offset)
    return `:${line}:${col}`
  }
  const [error] = errors
  if (error) return () => renderPlace(error.pos[0])
  return names => (names.length === 0 ? '' : renderPlace(findOffset(contents, names)))
}

/** Finds the first setting that stands twice in its section; undefined if none does. */
export function findRepeatedSetting(text: string): string | undefined {
  const { errors } = parseDocument(text, { logLevel: 'silent' })
  const repeated = errors.find(({ code }) => code === 'DUPLICATE_KEY')
  return repeated && text.slice(repeated.pos[0]).split(/[:\s]/, 1)[0]
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
