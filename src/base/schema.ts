import { FormatRegistry, Kind, type Static, type TSchema } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import {
  Errors,
  type ValueError,
  type ValueErrorIterator,
  ValueErrorType,
} from '@sinclair/typebox/errors'
import { Check } from '@sinclair/typebox/value'
import { isAddressRange } from './address-ranges.ts'
import { isObject, isRawJson, type Json } from './json.ts'
import { findNearest } from './nearest.ts'
import { LARGEST_BODY } from './schema-builders.ts'

/** One place where a value does not match its schema. `path` is dotted: `messages.0.role`. */
export interface SchemaIssue {
  path: string
  expected: string
  found: string
  /** The known word or field that a misspelt one most likely means. */
  suggestion?: string
  /** The value is a text of more characters than it may have. */
  isTooLong?: true
}

/** Describes an issue in one sentence that begins with the name of the place. */
export const describeIssue = ({ expected, found, suggestion }: SchemaIssue, name: string): string =>
  `${name}: expected ${expected}, found ${found}` +
  (suggestion === undefined ? '' : `; did you mean "${suggestion}"?`)

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
/** Returns a UUID as it is stored; any other text as it is. */
export const lowerUuid = (text: string): string => (UUID.test(text) ? text.toLowerCase() : text)

/** ISO 8601 in UTC with seconds, as E2 requires of `expires_at`: minute precision is refused. */
const UTC_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?Z$/

// TypeBox has no built-in formats, and refuses every value of a format that is not registered.
FormatRegistry.Set('uuid', text => UUID.test(text))
FormatRegistry.Set('utc-time', text => UTC_TIME.test(text) && isValidTime(text))
FormatRegistry.Set('email', text => /^[^@\s]+@[^@\s]+$/.test(text))
FormatRegistry.Set('slug', text => /^[a-z0-9][a-z0-9.:-]*$/.test(text))
FormatRegistry.Set('url', isPlainUrl)
FormatRegistry.Set('origin', isOrigin)
FormatRegistry.Set('address-range', isAddressRange)
FormatRegistry.Set('host:port', isHostAndPort)
FormatRegistry.Set('host[:port]', isHost)
FormatRegistry.Set('postgres-url', isPostgresUrl)
FormatRegistry.Set('valkey-url', isValkeyUrl)
// Characters that every server accepts in a header. This also refuses the line break that may end
// the file of a secret and is not part of the secret.
FormatRegistry.Set('visible-ascii', text => /^[!-~]([ -~]*[!-~])?$/.test(text))

/** What the client of Postgres takes (libpq's names). */
const SSL_MODES = new Set(['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'])

function isPostgresUrl(text: string): boolean {
  const url = URL.parse(text)
  if (url === null || !/^postgres(ql)?:$/.test(url.protocol)) return false
  const mode = url.searchParams.get('sslmode') ?? 'prefer'
  return url.host !== '' && url.pathname.length > 1 && SSL_MODES.has(mode)
}

function isValkeyUrl(text: string): boolean {
  const url = URL.parse(text)
  if (url === null || url.search !== '' || url.hash !== '') return false
  if (url.protocol === 'redis+unix:') return url.host === '' && url.pathname.length > 1
  if (!/^(redis|rediss|valkey|valkeys):$/.test(url.protocol)) return false
  return url.hostname !== '' && /^(\/\d{0,4})?$/.test(url.pathname)
}

// As browsers send it: in lower case, without a port that goes without saying, and without a path.
function isOrigin(text: string): boolean {
  return /^https?:[^*]*$/.test(text) && URL.canParse(text) && new URL(text).origin === text
}

function isHostAndPort(text: string): boolean {
  const port = /^(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+):(\d{1,5})$/i.exec(text)?.[1]
  return port !== undefined && Number(port) <= 65_535
}

// As a Host header has it: browsers write letters in lower case.
function isHost(text: string): boolean {
  const isForm = isHostAndPort(text) || isHostAndPort(`${text}:80`)
  return isForm && text === text.toLowerCase() && URL.canParse(`http://${text}`)
}

/** Whether the value matches the schema. */
export function matchesSchema<T extends TSchema>(schema: T, value: unknown): value is Static<T> {
  return isPlainMatch(schema, value) || findRealError(schema, value) === undefined
}

/** Finds the most specific place where the value does not match. Undefined when it matches. */
export function findSchemaIssue(schema: TSchema, value: unknown): SchemaIssue | undefined {
  if (isPlainMatch(schema, value)) return undefined
  const error = findRealError(schema, value)
  return error && toSchemaIssue(findDeepestError(error))
}

const findRealError = (schema: TSchema, value: unknown): ValueError | undefined =>
  listRealErrors(schema, value).next().value ?? undefined

// Lists the errors that are errors when characters are counted. To look into one uses up what is in
// it, so all are listed twice.
function* listRealErrors(schema: TSchema, value: unknown): Generator<ValueError, void> {
  const unused = Errors(schema, value)[Symbol.iterator]()
  for (const error of Errors(schema, value)) {
    const { value: same } = unused.next()
    if (!isMiscounted(error)) yield same
  }
}

// TypeBox counts UTF-16 units: 200 emoji have 400. People count characters.
function isMiscounted({ type, value, schema, errors }: ValueError): boolean {
  if (type === ValueErrorType.StringMaxLength)
    return typeof value === 'string' && hasAtMost(value, schema.maxLength)
  return errors.some(variant => isFitting(variant))
}

// A variant of a union fits if none of its errors is a real one.
function isFitting(variant: ValueErrorIterator): boolean {
  let count = 0
  for (const error of variant) {
    if (!isMiscounted(error)) return false
    count++
  }
  return count > 0
}

/** Returns whether a text has at most this many characters. Each takes one or two units. */
function hasAtMost(text: string, most: number): boolean {
  if (text.length <= most) return true
  if (text.length > 2 * most) return false
  let characters = 0
  for (const _ of text) characters++
  return characters <= most
}

/** Describes what a schema expects: `number from 0 to 2`, `"auto" or "none"`. */
export function describeSchema(schema: TSchema): string {
  if (schema.anyOf) return joinWords((schema.anyOf as TSchema[]).map(describeSchema))
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.format === 'utc-time') return 'time in ISO 8601, in UTC and with seconds'
  if (schema.format === 'url') return 'address with http:// or https://, without user and query'
  if (schema.format === 'postgres-url')
    return 'address of a database as postgres://user:password@host:5432/database'
  if (schema.format === 'valkey-url')
    return 'address of a server as redis://user:password@host:6379, rediss:// or redis+unix:///path'
  if (schema.format) return `${schema.type} in the form ${schema.format}`
  if (schema.type === 'number' || schema.type === 'integer')
    return `${schema.type}${describeRange(schema)}`
  if (schema.type === 'string')
    return (
      `string${describeLength(schema.minLength, findOwnBound(schema.maxLength), 'characters')}` +
      describeForm(schema)
    )
  if (schema.type === 'array')
    return `array${describeLength(schema.minItems, schema.maxItems, 'items')}`
  if (schema.maxProperties !== undefined)
    return `object${describeLength(undefined, schema.maxProperties, 'members')}`
  return typeof schema.type === 'string' ? schema.type : 'valid value'
}

// A form has a name, or is told as it is. What a text must not be is told by the other variants.
const describeForm = ({ title, pattern }: TSchema): string =>
  title ? `: ${title}` : pattern && !pattern.includes('(?!') ? ` in the form ${pattern}` : ''

/** Describes a value without repeating texts. Only numbers, booleans and null are shown as is. */
export function describeValue(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === null || typeof value === 'number' || typeof value === 'boolean')
    return String(value)
  if (isRawJson(value)) return 'a number too long to be kept exactly'
  if (Array.isArray(value)) return value.length === 0 ? 'an empty array' : 'an array'
  return typeof value === 'string' ? (value === '' ? 'an empty string' : 'a string') : 'an object'
}

/** Finds every place where the value does not match, at most `most`. */
export function findSchemaIssues(schema: TSchema, value: unknown, most: number): SchemaIssue[] {
  const issues = new Map<string, SchemaIssue>()
  if (isPlainMatch(schema, value)) return []
  for (const error of listRealErrors(schema, value)) {
    const issue = toSchemaIssue(findDeepestError(error))
    if (!issues.has(issue.path)) issues.set(issue.path, issue)
    if (issues.size === most) break
  }
  return [...issues.values()]
}

/** How often a schema is interpreted before it is compiled, which takes as long as many checks. */
const INTERPRETED = 64

/** How many values of JSON are interpreted: larger ones take as long as compiling does. */
const SMALL = 1_000

/** Schemas with the number of their checks, or compiled. */
const checks = new WeakMap<TSchema, number | TypeCheck<TSchema>>()

/**
 * Whether TypeBox takes the value for one of the schema, which counts texts in UTF-16 units. A
 * schema that few values are checked against, such as the config's at a start, is never compiled.
 */
function isPlainMatch(schema: TSchema, value: unknown): boolean {
  const known = checks.get(schema) ?? 0
  if (typeof known === 'object') return known.Check(value)
  if (known < INTERPRETED && countValues(value, SMALL) < SMALL) {
    checks.set(schema, known + 1)
    return Check(schema, value)
  }
  const compiled = TypeCompiler.Compile(schema)
  checks.set(schema, compiled)
  return compiled.Check(value)
}

/** Counts a value and all in it, up to a number at which it stops. */
function countValues(value: unknown, most: number): number {
  const left = [value]
  for (let count = 0; count < most; count++) {
    if (left.length === 0) return count
    const next = left.pop()
    if (typeof next !== 'object' || next === null) continue
    for (const name in next) if (left.push((next as Json)[name]) >= most) return most
  }
  return most
}

// An error at a union only says "none of these". The field that tells its variants apart says which
// one is meant, or is itself what is wrong. Without one, it is the variant of which a list is only
// too long or too short, and else the one whose error is deepest.
function findDeepestError(error: ValueError): ValueError {
  const told = isObject(error.value) ? findTag(error.schema) : undefined
  if (told && isObject(error.value)) {
    const value = error.value[told.name]
    const meant = told.variants.findIndex(words => words?.includes(value as string))
    const first = meant === -1 ? undefined : error.errors[meant]?.First()
    if (first) return findDeepestError(first)
    if (meant === -1 && (told.isClosed || typeof value !== 'string'))
      return {
        ...error,
        path: `${error.path}/${told.name}`,
        value,
        schema: told.schema,
        errors: [],
      }
  }
  const variants = error.errors
    .map(takeFirstErrors)
    .filter(found => !found.some(isDiscriminatorError(error)))
  const ofLength = variants.find(found => found.length > 0 && found.every(isOfLength))
  if (ofLength?.[0]) return ofLength[0]
  const below = variants
    .flatMap(([first]) => (first ? findDeepestError(first) : []))
    .filter(found => found.path.length > error.path.length)
  if (below.length === 0) return error
  return below.reduce((best, next) => (computeDepth(next) > computeDepth(best) ? next : best))
}

/** The field that tells the variants of a union apart. */
interface Tag {
  name: string
  /** The words that stand for each variant; null where any text may. */
  variants: (string[] | null)[]
  /** Whether there are no other words. */
  isClosed: boolean
  schema: TSchema
}

const tags = new WeakMap<TSchema, Tag | null>()

/** Finds the field that every object of a union has, with words of its own in most of them. */
function findTag(union: TSchema): Tag | undefined {
  if (!tags.has(union)) tags.set(union, buildTag(union) ?? null)
  return tags.get(union) ?? undefined
}

function buildTag({ anyOf }: TSchema): Tag | undefined {
  const all = (anyOf ?? []) as TSchema[]
  const objects = all.flatMap(listObjects)
  const names = Object.keys(objects[0]?.properties ?? {})
  const name = names.find(
    one =>
      objects.every(({ required }) => required?.includes(one)) &&
      objects.some(({ properties }) => listWords(properties[one])),
  )
  if (name === undefined || objects.length < 2) return undefined
  const variants = all.map(variant => {
    const words = listObjects(variant).map(({ properties }) => listWords(properties[name]))
    return words.every(one => one !== undefined) ? words.flat() : null
  })
  const fields = objects.map(({ properties }) => properties[name] as TSchema)
  const isClosed = fields.every(listWords)
  return { name, variants, isClosed, schema: { anyOf: fields } as unknown as TSchema }
}

/** Lists the objects among the variants of a schema, at any depth. */
const listObjects = (schema: TSchema): TSchema[] =>
  schema.type === 'object' && schema.properties
    ? [schema]
    : ((schema.anyOf as TSchema[] | undefined)?.flatMap(listObjects) ?? [])

/** Lists the words of a schema that allows words only. */
function listWords(schema: TSchema | undefined): string[] | undefined {
  if (typeof schema?.const === 'string') return [schema.const]
  const words = (schema?.anyOf as TSchema[] | undefined)?.map(listWords)
  return words?.every(word => word !== undefined) ? words.flat() : undefined
}

/**
 * TypeBox reports missing fields before wrong ones, so the error at a variant's tag may come late.
 * Errors past this number are not read for it.
 */
const FEW = 16

function takeFirstErrors(errors: ValueErrorIterator): ValueError[] {
  const found: ValueError[] = []
  for (const error of errors) if (found.push(error) === FEW) break
  return found
}

const isOfLength = ({ type }: ValueError) =>
  type === ValueErrorType.ArrayMinItems || type === ValueErrorType.ArrayMaxItems

const computeDepth = (error: ValueError) => error.path.split('/').length

// A variant that fails on its own tag (`role`, `type`) is not the intended one.
const isDiscriminatorError = (union: ValueError) => (error: ValueError) =>
  error.schema[Kind] === 'Literal' &&
  typeof error.value === 'string' &&
  computeDepth(error) === computeDepth(union) + 1

function toSchemaIssue(error: ValueError): SchemaIssue {
  const path = shortenPath(error.path.slice(1).replaceAll('/', '.'))
  if (error.message === 'Unexpected property')
    return {
      path: isMap(error.schema) ? getParentPath(path) : path,
      expected: 'no such field',
      found: describeKind(error.value),
      ...suggest(path.split('.').at(-1), Object.keys(error.schema.properties ?? {})),
    }
  return {
    path,
    expected: describeSchema(error.schema),
    found: describeFound(error),
    ...suggest(error.value, listAllWords(error.schema)),
    ...(isTooLong(error.schema, error.value) ? { isTooLong: true } : {}),
  }
}

// A list of the wrong length is told by its length.
function describeFound({ type, schema, value }: ValueError): string {
  if (type === ValueErrorType.ArrayMaxItems && Array.isArray(value)) return `${value.length} items`
  return schema.type === 'string' ? describeKind(value) : describeValue(value)
}

/** Whether the value is a text of more characters than any variant of the schema has. */
const isTooLong = ({ type, maxLength, anyOf }: TSchema, value: unknown): boolean =>
  typeof value === 'string' &&
  (anyOf
    ? (anyOf as TSchema[]).some(variant => isTooLong(variant, value))
    : type === 'string' && maxLength !== undefined && !hasAtMost(value, maxLength))

/** Lists the words that a schema allows, among other values. */
const listAllWords = (schema: TSchema): string[] =>
  (schema.anyOf as TSchema[] | undefined)?.flatMap(one => listWords(one) ?? listAllWords(one)) ?? []

// Only a word of ours is repeated, and only if it is near: the value itself may be a secret.
function suggest(value: unknown, known: string[]): { suggestion?: string } {
  const suggestion = typeof value === 'string' ? findNearest(value, known) : undefined
  return suggestion === undefined ? {} : { suggestion }
}

// The keys of a map are the caller's own words, and may be as long as the body.
const LONGEST_PATH = 300
const shortenPath = (path: string) =>
  path.length > LONGEST_PATH ? `${path.slice(0, LONGEST_PATH)}…` : path

// A number where a text is expected, or in a misspelled field, may be a secret made of digits.
const describeKind = (value: unknown) =>
  typeof value === 'number' ? 'a number' : describeValue(value)

// The keys of a map are the caller's own words, and no message repeats those.
const isMap = (schema: TSchema) => schema.patternProperties !== undefined

const getParentPath = (path: string) => path.slice(0, Math.max(0, path.lastIndexOf('.')))

const joinWords = (words: string[]) => [...new Set(words)].join(' or ')

function describeRange(schema: TSchema): string {
  const {
    minimum,
    maximum,
    exclusiveMinimum: above,
    exclusiveMaximum: below,
  } = omitExactness(schema)
  const low =
    minimum === undefined ? (above === undefined ? '' : ` above ${above}`) : ` from ${minimum}`
  const high =
    maximum === undefined ? (below === undefined ? '' : ` below ${below}`) : ` to ${maximum}`
  return low + high
}

/** Returns a schema without the bounds that say no more than that a whole number is exact. */
export function omitExactness(schema: TSchema): TSchema {
  const { minimum, maximum, ...rest } = schema
  return {
    ...rest,
    ...(minimum === undefined || minimum === Number.MIN_SAFE_INTEGER ? {} : { minimum }),
    ...(maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? {} : { maximum }),
  } as TSchema
}

// The bound of the whole body says nothing about one of its texts.
const findOwnBound = (maxLength: number | undefined) =>
  maxLength === LARGEST_BODY ? undefined : maxLength

function describeLength(min: number | undefined, max: number | undefined, unit: string): string {
  if (min !== undefined && max !== undefined) return ` of ${min} to ${max} ${unit}`
  if (max !== undefined) return ` of at most ${max} ${unit}`
  return min === undefined || min === 0
    ? ''
    : ` of at least ${min} ${min === 1 ? unit.slice(0, -1) : unit}`
}

// The gateway appends a path to such a URL; a user or a query in it would be lost or shown.
function isPlainUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  return /^https?:$/.test(protocol) && username + password + search + hash === ''
}

function isValidTime(text: string): boolean {
  const time = new Date(text)
  return !Number.isNaN(time.getTime()) && time.toISOString().slice(0, 19) === text.slice(0, 19)
}
