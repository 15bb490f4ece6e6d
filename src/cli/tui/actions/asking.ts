import type { Change, Noun, Source } from '../source.ts'

/** A row of a noun, as its command lists it. */
export type Row = Record<string, unknown>

/** What an action makes once it is confirmed. */
export interface Plan {
  question: string
  changes: Change[]
  /** What is shown once it is made. */
  done: string
}

/** What an action may ask. Each throws `Left` when the question is left. */
export interface Asking {
  ask(question: string, initial?: string): Promise<string>
  /** Asks for a name. Throws a sentence for an empty one. */
  askName(question: string, initial?: string): Promise<string>
  /** Asks for a secret, which is not shown as it is typed. */
  askSecret(question: string): Promise<string>
  /** Finds things by what is typed: their ids, names, or beginnings of one, with commas between. */
  find(text: string, ...nouns: Noun[]): Promise<[Found, ...Found[]]>
}

/** A thing that was named. */
export interface Found {
  noun: Noun
  id: string
  name: string
}

/** A question was left without an answer: nothing is made. */
export class Left extends Error {}

/** What people call a row. */
export function nameRow(row: Row): string {
  const [name] = [row.name, row.slug, row.email, row.label, row.id].filter(
    one => typeof one === 'string' && one !== '',
  )
  return String(name ?? 'this')
}

/** The id that changes of a row name: budgets have none of their own. */
export function identifyRow(noun: Noun, row: Row): string {
  if (noun === 'keys') return String(row.hash)
  if (noun === 'presets') return String(row.slug)
  if (noun === 'budgets') return `${row.workspace_id} ${row.reset_interval ?? 'lifetime'}`
  return String(row.id)
}

/**
 * Finds what a text names among the rows of a source: each piece by its id or a name, else by a
 * beginning of one that only one has. Throws a sentence for a piece that names none or several,
 * and for no piece at all.
 */
export async function findRows(
  source: Source,
  text: string,
  nouns: Noun[],
): Promise<[Found, ...Found[]]> {
  const lists = await Promise.all(nouns.map(async noun => toFound(noun, await source.list(noun))))
  const all = lists.flat()
  const pieces = text.split(',').map(piece => piece.trim())
  const [first, ...others] = pieces.filter(Boolean).map(piece => findOne(all, piece, nouns))
  if (!first) throw new Error('Expected a name, or several with commas')
  return [first, ...others]
}

/** Returns what destinations that were created or changed warn of: what else is off. */
export async function findWarning(source: Source, changes: Change[]): Promise<string | undefined> {
  const changed = changes.filter(({ noun }) => noun === 'destinations')
  if (changed.length === 0) return undefined
  const rows = (await source.list('destinations')) as Row[]
  const isChanged = (row: Row) =>
    changed.some(({ id, input }) => row.id === id || row.name === (input as Row).name)
  const warnings = rows.filter(isChanged).map(({ warning }) => warning)
  return warnings.find(warning => typeof warning === 'string')
}

type Named = Found & { names: string[] }

const toFound = (noun: Noun, rows: object[]): Named[] =>
  (rows as Row[]).map(row => {
    const id = identifyRow(noun, row)
    const names = [id, row.name, row.slug, row.email, row.label].filter(
      one => typeof one === 'string',
    )
    return { noun, id, name: nameRow(row), names }
  })

function findOne(all: Named[], piece: string, nouns: Noun[]): Found {
  const exact = all.filter(({ names }) => names.includes(piece))
  const found =
    exact.length > 0 ? exact : all.filter(({ names }) => names.some(name => name.startsWith(piece)))
  const [only, ...others] = found
  const listed = nouns.join(' or ')
  if (!only) throw new Error(`${piece}: found none among the ${listed}`)
  if (others.length > 0) throw new Error(`${piece}: expected one, found ${found.length} ${listed}`)
  return only
}
