import type { ActivityEntry } from '../../../extensions/activity/entries.ts'

/** What the calls that are shown have in common. */
export interface CallFilter {
  /** A key's name, hash, or a beginning of one. */
  key?: string
  model?: string
  provider?: string
  /** `429`, or `4xx`. */
  status?: string
}

/** How many running calls are remembered. */
const MOST_CALLS = 50_000

/**
 * Tells which entries match. An entry is about a call by its id: that of a key is known from the
 * first entry of a call on. With a filter, entries about no call do not match.
 */
export class EntryFilter {
  readonly #wanted: CallFilter
  readonly #isEmpty: boolean
  readonly #calls = new Map<string, Set<string>>()

  constructor(wanted: CallFilter) {
    this.#wanted = wanted
    this.#isEmpty = Object.values(wanted).every(value => value === undefined)
  }

  matches(entry: ActivityEntry): boolean {
    if (this.#isEmpty) return true
    if (!('id' in entry)) return false
    const { key, model, provider, status } = this.#wanted
    const known = this.#remember(entry)
    return (
      hasKey(known, key) &&
      hasName(known, 'model', model) &&
      hasName(known, 'provider', provider) &&
      hasStatus(entry, status)
    )
  }

  #remember(entry: ActivityEntry & { id: string }): Set<string> {
    const known = this.#calls.get(entry.id) ?? new Set<string>()
    for (const fact of listFacts(entry)) known.add(fact)
    if (entry.type === 'call.finished') this.#calls.delete(entry.id)
    else if (entry.type !== 'call.refused') this.#calls.set(entry.id, known)
    if (this.#calls.size > MOST_CALLS) this.#calls.delete(this.#calls.keys().next().value ?? '')
    return known
  }
}

/** What an entry tells of its call, each as `field value`. */
function listFacts(entry: ActivityEntry): string[] {
  const facts: string[] = []
  const add = (field: string, value: unknown) => {
    if (typeof value === 'string') facts.push(`${field} ${value.toLowerCase()}`)
  }
  if ('key_hash' in entry) add('key', entry.key_hash)
  if ('key_name' in entry) add('key', entry.key_name)
  if ('models' in entry) for (const model of entry.models) add('model', model)
  if ('model' in entry) add('model', entry.model)
  if ('provider' in entry) add('provider', entry.provider)
  if ('provider_name' in entry) add('provider', entry.provider_name)
  return facts
}

const hasName = (known: Set<string>, field: string, wanted: string | undefined): boolean =>
  wanted === undefined || known.has(`${field} ${wanted.toLowerCase()}`)

const hasKey = (known: Set<string>, wanted: string | undefined): boolean =>
  wanted === undefined || [...known].some(fact => fact.startsWith(`key ${wanted.toLowerCase()}`))

function hasStatus(entry: ActivityEntry, wanted: string | undefined): boolean {
  if (wanted === undefined) return true
  if (!('status' in entry) || entry.status === null) return false
  const status = String(entry.status)
  return wanted.endsWith('xx') ? status[0] === wanted[0] : status === wanted
}
