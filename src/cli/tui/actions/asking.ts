import type { Change, Noun } from '../source.ts'

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
