import { InvalidArgumentError, Option } from 'commander'
import type { Gateway } from '../app/gateway.ts'
import { invalid } from '../base/errors.ts'
import { suggest } from './completions/sources.ts'
import { findId, type Naming } from './names.ts'
import { type CommonOptions, findWorkspaceId, parseDuration, parseNumber } from './options.ts'

/** The flags that Commander read from a command line, by Commander's option names. */
export type Flags = CommonOptions & Record<string, unknown>

/** Values by the names of the API's fields. An undefined value fills nothing. */
type Values = Record<string, unknown>

/** Options of a command and the input fields of the API that they fill. Later ones win. */
export interface Fields {
  options: Option[]
  /** The flag of each field, for errors: `--limit-reset` of `limit_reset`. */
  flags?: Record<string, string>
  /** Reads fields from options and arguments before a gateway is opened. */
  read?(flags: Flags, args: unknown[]): Values | Promise<Values>
  /** Finds fields that need an open gateway. */
  find?(gateway: Gateway, flags: Flags, args: unknown[]): Values | Promise<Values>
  /** How its list goes on: by pages of the core, or not, so that pages are cut from all of it. */
  pages?: 'core' | 'here'
}

/**
 * How a text becomes a value. `parse` runs while Commander reads the line, so that an error names
 * the option; `read` runs after that. Only `read` can return null, which Commander takes for no
 * text.
 */
interface ValueReader {
  parse?: (text: string) => unknown
  read?: (value: never) => unknown
}

/** Declares an option that fills one field. */
export function fill(
  field: string,
  flags: string,
  description: string,
  reader: ValueReader = {},
): Fields {
  const { parse, read = (value: unknown) => value } = reader
  const option = new Option(flags, description)
  if (parse) option.argParser(parse)
  const name = option.attributeName()
  const readFlag = (value: unknown) => (value === undefined ? undefined : read(value as never))
  return {
    options: [option],
    flags: { [field]: option.long ?? option.flags },
    read: flags => ({ [field]: readFlag(flags[name]) }),
  }
}

/** Declares an option that fills no field. */
export const offer = (flags: string, description: string): Fields => ({
  options: [new Option(flags, description)],
})

/** Makes the same options mandatory. Commander refuses a line without them. */
export const demand = (fields: Fields): Fields => ({
  ...fields,
  options: fields.options.map(option =>
    Object.assign(new Option(option.flags), option).makeOptionMandatory(),
  ),
})

/** Makes Commander refuse the same options beside others, by their names in Commander. */
export const refuseBeside = (others: string | string[], fields: Fields): Fields => ({
  ...fields,
  options: fields.options.map(option => option.conflicts(others)),
})

/** Declares an option that names something, for the field that has its id. */
export function fillNamed(
  field: string,
  flags: string,
  description: string,
  naming: Naming,
): Fields {
  const option = suggest(new Option(flags, description), naming)
  const name = option.attributeName()
  const find = async (gateway: Gateway, { [name]: text }: Flags) =>
    text === undefined ? {} : { [field]: await requireOwnId(naming, gateway, String(text)) }
  return { options: [option], flags: { [field]: option.long ?? option.flags }, find }
}

/**
 * Declares an option that names several things, with commas between, for the field that has their
 * ids. `none` means null.
 */
export function fillAllNamed(
  field: string,
  flags: string,
  description: string,
  naming: Naming,
): Fields {
  const option = suggest(new Option(flags, description), naming)
  const name = option.attributeName()
  const find = async (gateway: Gateway, { [name]: text }: Flags) => {
    if (text === undefined) return {}
    const names = splitList(String(text))
    return { [field]: names && (await findIds(naming, gateway, names)) }
  }
  return { options: [option], flags: { [field]: option.long ?? option.flags }, find }
}

/** Finds the ids that texts name, as the operator. Throws 400 for what can only be a wrong name. */
export const findIds = (naming: Naming, gateway: Gateway, texts: string[]): Promise<string[]> =>
  Promise.all(texts.map(text => requireOwnId(naming, gateway, text)))

// A whole id passes: what it named may be deleted, and its calls are still known.
async function requireOwnId(naming: Naming, gateway: Gateway, text: string): Promise<string> {
  const { getOperator } = await import('../resources/actor.ts')
  const id = await findId(naming, gateway, getOperator(gateway), text)
  if (naming.form && !naming.form.test(id))
    throw invalid(`${text}: expected an id or a name of one ${naming.noun}, found none`)
  return id
}

/** Declares `--workspace`, an id or a slug, for `workspace_id`. Throws 404 for a missing one. */
export const fillWorkspace = (description: string): Fields => ({
  options: [new Option('--workspace <id>', description)],
  flags: { workspace_id: '--workspace' },
  find: async (gateway, { workspace }: { workspace?: string }) => ({
    workspace_id: await findWorkspaceId(gateway, workspace),
  }),
})

/** Declares `--disable` and `--enable` for `disabled`. Commander refuses both together. */
export const fillDisabled = (disable: string, enable: string): Fields => ({
  options: [new Option('--disable', disable).conflicts('enable'), new Option('--enable', enable)],
  read: flags => ({ disabled: flags.disable ? true : flags.enable ? false : undefined }),
})

/** A number. */
export const NUMBER: ValueReader = { parse: parseNumber }

/** `yes` or `no`. */
export const YES_OR_NO: ValueReader = { parse: parseYesOrNo }

/** A text, where `none` means null. */
export const OR_NULL: ValueReader = { read: readNone }

/** A number, where `none` means null. */
export const NUMBER_OR_NULL: ValueReader = {
  parse: text => (text === 'none' ? text : parseNumber(text)),
  read: readNone,
}

/** A time that is over: a day, a time in UTC, or how long ago: `7d`. */
export const PAST_TIME: ValueReader = {
  parse: text => parseTime(text, 'so long ago'),
  read: (text: string) => completeTime(text, -1),
}

/** The options of a list or report of what has been. */
export const PERIOD: Fields[] = [
  fill(
    'since',
    '--since <time>',
    'from this day or time on, in UTC, or so long ago: 7d',
    PAST_TIME,
  ),
  fill('until', '--until <time>', 'before this day or time', PAST_TIME),
]

/** A time to come: a day, a time in UTC, or how long from now: `7d`. */
export const COMING_TIME: ValueReader = {
  parse: text => parseTime(text, 'so long from now'),
  read: (text: string) => completeTime(text, 1),
}

/** A comma-separated list, where `none` means null. */
export const LIST: ValueReader = { read: splitList }

/** The options of a list whose core returns pages. */
export const PAGE: Fields[] = [
  fill('offset', '--offset <n>', 'how many to skip', NUMBER),
  fill('limit', '--limit <n>', 'how many at most (50)', NUMBER),
  { ...offer('--all', 'all of them'), pages: 'core' },
]

/** The options of a list whose core returns all of it: a page is cut from that. */
export const CUT: Fields = {
  options: [
    new Option('--offset <n>', 'how many to skip').argParser(parseNumber),
    new Option('--limit <n>', 'how many at most (all)').argParser(parseNumber),
  ],
  pages: 'here',
}

function parseYesOrNo(text: string): boolean {
  if (text !== 'yes' && text !== 'no') throw new InvalidArgumentError('expected yes or no')
  return text === 'yes'
}

const LENGTH = /^\d{1,6}[smhd]$/
const PARTIAL_TIME = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d)?(:\d\d(\.\d+)?)?Z?$/

/** Returns a length of time, or what begins as a day: the schema checks the rest of that. */
function parseTime(text: string, lengths: string): string {
  if (LENGTH.test(text) || isDay(text.slice(0, 10))) return text
  throw new InvalidArgumentError(
    `expected a day such as 2026-11-05, a time such as 2026-11-05T12:00:00Z, or ${lengths}: 7d`,
  )
}

const DAY = /^\d{4}-\d\d-\d\d$/

/** Tells whether a text is a day that there is: a month has no 31st day everywhere. */
export function isDay(text: string): boolean {
  const time = new Date(`${text}T00:00:00Z`)
  return DAY.test(text) && !Number.isNaN(time.getTime()) && time.toISOString().startsWith(text)
}

/** Writes a time as the API wants it. What is none is left to its schema. */
function completeTime(text: string, direction: 1 | -1): string {
  if (LENGTH.test(text))
    return new Date(Date.now() + direction * parseDuration(text) * 1_000).toISOString()
  const [, day, minute = 'T00:00', seconds = ':00'] = PARTIAL_TIME.exec(text) ?? []
  return day === undefined ? text : `${day}${minute}${seconds}Z`
}

function readNone<T>(value: T): T | null {
  return value === 'none' ? null : value
}

/** Splits a text at its commas. Returns null for `none`. */
export function splitList(text: string): string[] | null {
  return text === 'none' ? null : text.split(',').map(item => item.trim())
}
