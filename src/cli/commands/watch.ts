import { Command, InvalidArgumentError } from 'commander'
import { invalid } from '../../base/errors.ts'
import { toPrintableJson } from '../../base/printable.ts'
import type { ActivityEntry } from '../../extensions/activity/entries.ts'
import { addPlaceOptions, addShapeOptions, type CommonOptions, parseNumber } from '../options.ts'
import { print } from '../output.ts'

/** What the calls that are shown have in common. */
interface CallFilter {
  /** A key's name, hash, or a beginning of one. */
  key?: string
  model?: string
  provider?: string
  /** `429`, or `4xx`. */
  status?: string
}

interface WatchOptions extends CommonOptions, CallFilter {
  url?: string
  limit?: number
  past?: number
}

/** `gateway watch`: what happens at a gateway, line by line. */
export const createWatchCommand = () =>
  addPlaceOptions(
    addShapeOptions(
      new Command('watch').description(
        'print what happens at a running server, as it happens, until Ctrl-C',
      ),
      'print each entry as JSON, with those about progress and state',
    ),
  )
    .option('--key <key>', 'calls of this API key, by name, hash or a beginning of one')
    .option('--model <id>', 'calls of this model')
    .option('--provider <name>', 'calls that this provider was asked for')
    .option('--status <status>', 'entries with this HTTP status: 429, 5xx', parseStatus)
    .option('--past <n>', 'begin with those of the last so many calls, up to 1000', parsePast)
    .option('--limit <n>', 'end after so many lines', parseLimit)
    .option('--url <url>', 'a gateway elsewhere; its management key is in GATEWAY_KEY')
    .action(watch)

function parseStatus(text: string): string {
  if (/^[1-5](\d\d|xx)$/.test(text)) return text
  throw new InvalidArgumentError('expected a status such as 429, or 5xx')
}

function parseLimit(text: string): number {
  const count = parseNumber(text)
  if (Number.isInteger(count) && count > 0) return count
  throw new InvalidArgumentError('expected a whole number above 0')
}

function parsePast(text: string): number {
  const count = parseNumber(text)
  if (Number.isInteger(count) && count >= 0 && count <= MOST_PAST) return count
  throw new InvalidArgumentError(`expected a whole number from 0 to ${MOST_PAST}`)
}

/** How many past calls a gateway tells. */
const MOST_PAST = 1_000

/** Chooses how entries are rendered. With fields those that have none of them are left out. */
async function chooseRenderer({
  json,
  field,
}: WatchOptions): Promise<(entry: ActivityEntry) => string | null> {
  if (json) return entry => toPrintableJson(entry)
  if (field === undefined) return (await import('./watch/line.ts')).renderEntry
  const { renderSome } = await import('../shapes.ts')
  await checkFields(field)
  return entry => renderSome(entry, field)
}

/** Throws 400 for a field that no type of entry has: it would print nothing for ever. */
async function checkFields(fields: string): Promise<void> {
  const { ENTRY_FIELDS } = await import('../../extensions/activity/entries.ts')
  const names = fields.split(',').map(name => name.trim())
  const unknown = names.find(name => !Object.hasOwn(ENTRY_FIELDS, name.split('.')[0] ?? ''))
  if (unknown !== undefined)
    throw invalid(`--field: expected ${Object.keys(ENTRY_FIELDS).join(', ')}, found ${unknown}`)
}

async function watch(options: WatchOptions): Promise<void> {
  const { openFeed } = await import('../feed.ts')
  const render = await chooseRenderer(options)
  const { limit = Number.POSITIVE_INFINITY, key, model, provider, status } = options
  const filter = new EntryFilter({
    ...(key === undefined ? {} : { key }),
    ...(model === undefined ? {} : { model }),
    ...(provider === undefined ? {} : { provider }),
    ...(status === undefined ? {} : { status }),
  })
  const { batches, close } = await openFeed(options)
  let isStopped = false
  const stop = () => {
    isStopped = true
    close()
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop)
  process.stdout.once('error', stop)
  let printed = 0
  for await (const batch of batches)
    for (const json of batch) {
      const entry: ActivityEntry = JSON.parse(json)
      const line = filter.matches(entry) ? render(entry) : null
      if (line === null) continue
      print(line)
      printed += 1
      if (printed === limit) return stop()
    }
  if (!isStopped) throw new Error('The server has ended')
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
