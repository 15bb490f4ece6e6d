import type { TSchema } from '@sinclair/typebox'
import { isObject, type Json } from '../../src/base/json.ts'

/** A body or query in which one field has the largest value that its schema allows. */
export interface LargestCase {
  /** The field, and what of it is large. */
  name: string
  /** Builds the value: some have 30 MB, so they are made one after the other. */
  build(): unknown
}

/** What fits in a body beside the field: 32 MiB and 500,000 brackets, commas and colons. */
const CHARACTERS = 30 * 1024 * 1024
const TOKENS = 450_000
const DEPTH = 100

/** Lists the largest values of every field of a schema, in count, length and depth. */
export function listLargestCases(schema: TSchema, base: Json = {}): LargestCase[] {
  return [...walk(schema, '', value => (isObject(value) ? { ...base, ...value } : value))]
}

type Wrap = (value: unknown) => unknown

function* walk(schema: TSchema, name: string, wrap: Wrap): Generator<LargestCase> {
  const label = name || 'body'
  if (schema.anyOf) {
    for (const [i, variant] of (schema.anyOf as TSchema[]).entries())
      yield* walk(variant, schema.anyOf.length > 2 ? `${name}<${i}>` : name, wrap)
  } else if (schema.type === 'array') yield* walkArray(schema, label, wrap)
  else if (schema.type === 'object') yield* walkObject(schema, name, wrap)
  else if (schema.type === 'string' && schema.const === undefined)
    yield* walkText(schema, name, label, wrap)
  else if (schema.type === undefined && schema.const === undefined) yield* walkUnknown(label, wrap)
}

/** Texts of which every character is more work than a letter: to decode, to write, to count. */
const COSTLY: Record<string, string> = {
  quotes: '"',
  'line breaks': 'a b\n',
  controls: '\u0001',
  'other alphabets': 'привет, мир ',
  'one ideograph': '',
}

function* walkText(
  schema: TSchema,
  name: string,
  label: string,
  wrap: Wrap,
): Generator<LargestCase> {
  yield { name: `${label} as long as possible`, build: () => wrap(buildText(schema, name)) }
  if (schema.format || schema.pattern || /(url|data)$/.test(name)) return
  for (const [of, unit] of Object.entries(COSTLY))
    yield {
      name: `${label} full of ${of}`,
      build: () => wrap(buildCostlyText(unit, schema.maxLength ?? CHARACTERS)),
    }
}

/** Builds a text that takes as many bytes of JSON as fit. */
function buildCostlyText(unit: string, most: number): string {
  if (unit === '') return `${'ab, c '.repeat(Math.min(most, CHARACTERS) / 6 - 1)}漢`
  const bytes = Buffer.byteLength(JSON.stringify(unit)) - 2
  return unit.repeat(Math.floor(CHARACTERS / bytes)).slice(0, most)
}

function* walkObject(schema: TSchema, name: string, wrap: Wrap): Generator<LargestCase> {
  const base = buildSmallest(schema) as Json
  for (const [field, member] of Object.entries(
    (schema.properties ?? {}) as Record<string, TSchema>,
  ))
    yield* walk(member, name ? `${name}.${field}` : field, value =>
      wrap({ ...base, [field]: value }),
    )
  const isMap = schema.patternProperties !== undefined
  if (isMap) yield* walkMap(schema, name, wrap)
  if (isMap && /(parameters|schema)$/.test(name)) yield* walkJsonSchema(name, wrap)
  if (isMap || schema.additionalProperties === true) {
    yield* walkUnknown(`${name}.x`, value => wrap({ ...base, x: value }))
    yield {
      name: `${name}.* with a name as long as possible`,
      build: () => wrap({ ...base, [buildText({ maxLength: CHARACTERS } as never, '')]: 1 }),
    }
  }
}

function* walkMap(schema: TSchema, name: string, wrap: Wrap): Generator<LargestCase> {
  const [value] = Object.values(schema.patternProperties as Record<string, TSchema>)
  const count = Math.min(schema.maxProperties ?? TOKENS, TOKENS / 2)
  const item = value ? buildSmallest(value) : 1
  yield {
    name: `${name} with ${count} members`,
    build: () => wrap(Object.fromEntries(Array.from({ length: count }, (_, i) => [i, item]))),
  }
}

const repeat = <T>(count: number, build: (i: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => build(i))
const toProperties = (count: number, build: (i: number) => unknown) => ({
  type: 'object',
  properties: Object.fromEntries(repeat(count, i => [`p${i}`, build(i)])),
})
const nestSchema = (wrap: (inner: Json) => Json) =>
  repeat(DEPTH / 3, () => wrap).reduce<Json>((inner, around) => around(inner), { type: 'string' })

/** The largest JSON Schemas, which are rewritten for some providers. */
const JSON_SCHEMAS: Record<string, () => Json> = {
  'with 40000 of properties': () => toProperties(40_000, () => ({ type: 'string' })),
  'with 200000 of enum': () => ({ type: 'string', enum: repeat(200_000, i => `e${i}`) }),
  'with 100000 of required': () => ({
    ...toProperties(50_000, () => ({})),
    required: repeat(100_000, i => `p${i}`),
  }),
  'with 40000 of anyOf': () => ({
    anyOf: repeat(40_000, i => ({ type: 'string', title: `${i}` })),
  }),
  'with 40000 of allOf': () => ({ allOf: repeat(40_000, i => ({ title: `${i}` })) }),
  'with 40000 of $ref': () => ({
    ...toProperties(40_000, () => ({ $ref: '#/$defs/a' })),
    $defs: { a: { type: 'string' } },
  }),
  'with 20000 of $defs, each with the next': () => ({
    $ref: '#/$defs/d0',
    $defs: Object.fromEntries(repeat(20_000, i => [`d${i}`, { $ref: `#/$defs/d${i + 1}` }])),
  }),
  'with 30 of $defs, each twice with the next': () => ({
    $ref: '#/$defs/d0',
    $defs: Object.fromEntries(
      repeat(30, i => [`d${i}`, toProperties(2, () => ({ $ref: `#/$defs/d${i + 1}` }))]),
    ),
  }),
  'with 300 of $defs, each with all': () => ({
    $ref: '#/$defs/d0',
    $defs: Object.fromEntries(
      repeat(300, i => [`d${i}`, toProperties(300, k => ({ $ref: `#/$defs/d${k}` }))]),
    ),
  }),
  'with 33 of levels': () => nestSchema(inner => ({ type: 'object', properties: { a: inner } })),
  'with 33 of levels of several types': () =>
    nestSchema(inner => ({ type: ['object', 'array', 'null'], properties: { a: inner } })),
}

function* walkJsonSchema(name: string, wrap: Wrap): Generator<LargestCase> {
  for (const [size, build] of Object.entries(JSON_SCHEMAS))
    yield { name: `${name} ${size}`, build: () => wrap(build()) }
}

function* walkArray(schema: TSchema, name: string, wrap: Wrap): Generator<LargestCase> {
  const items = schema.items as TSchema
  for (const variant of (items.anyOf as TSchema[] | undefined) ?? [items]) {
    const smallest = buildSmallest(variant)
    const json = JSON.stringify(smallest)
    const cost = 1 + (json.match(/[[\]{},:]/g)?.length ?? 0)
    const most = Math.min(schema.maxItems ?? TOKENS, TOKENS / cost, CHARACTERS / json.length)
    const count = Math.max(1, Math.floor(most))
    const kind = findKind(variant)
    yield {
      name: `${name} with ${count} of ${kind}`,
      build: () => wrap(new Array(count).fill(smallest)),
    }
    if (variant.const !== undefined) continue
    if (variant.type === 'string')
      yield { name: `${name} full of long texts`, build: () => wrap(fillTexts(schema, variant)) }
    else yield* walk(variant, `${name}[${kind}]`, value => wrap([value]))
  }
}

// Different texts: nothing may be saved by comparing them.
function fillTexts(schema: TSchema, item: TSchema): string[] {
  const count = Math.min(schema.maxItems ?? TOKENS, TOKENS)
  const length = Math.min(item.maxLength ?? CHARACTERS, Math.floor(CHARACTERS / count))
  const text = buildText({ ...item, maxLength: length }, '')
  return Array.from({ length: count }, (_, i) => `${i}${text}`.slice(0, length))
}

function findKind({ properties = {}, type }: TSchema): string {
  const tag = properties.role ?? properties.type
  return tag?.const ?? tag?.anyOf?.[0]?.const ?? type ?? 'anything'
}

function* walkUnknown(name: string, wrap: Wrap): Generator<LargestCase> {
  const nest = () => {
    let value: unknown = 1
    for (let depth = 0; depth < DEPTH; depth++) value = depth % 2 ? [value] : { x: value }
    return value
  }
  const number = Math.floor(TOKENS / 2)
  yield { name: `${name} as deep as possible`, build: () => wrap({ x: nest() }) }
  yield {
    name: `${name} with ${number} items`,
    build: () => wrap({ x: new Array(number).fill('x') }),
  }
  yield {
    name: `${name} with ${number} members`,
    build: () => wrap(Object.fromEntries(Array.from({ length: number }, (_, i) => [`x${i}`, 1]))),
  }
  yield {
    name: `${name} as long as possible`,
    build: () => wrap({ x: 'x y '.repeat(CHARACTERS / 4) }),
  }
}

/** Builds the longest text, of words or, where its name says so, of base64. */
function buildText({ maxLength = CHARACTERS, format, pattern, minLength }: TSchema, name: string) {
  const length = Math.min(maxLength, CHARACTERS)
  if (format || (pattern && !pattern.startsWith('^(?!')))
    return buildSmallestText({ format, pattern, minLength } as never)
  if (/(url|file_data)$/.test(name))
    return `data:image/png;base64,${'A'.repeat(length - 24 - (length % 4))}`
  if (/data$/.test(name)) return 'A'.repeat(length - (length % 4))
  return 'ab, c '.repeat(Math.ceil(length / 6)).slice(0, length)
}

const TEXTS: Record<string, string> = {
  uuid: '00000000-0000-7000-8000-000000000001',
  'utc-time': '2030-01-01T00:00:00Z',
  email: 'ada@acme.example',
  url: 'https://acme.example',
  slug: 'a',
}

const PATTERNS: [start: string, text: string][] = [
  ['^[a-f0-9]{64}$', '0'.repeat(64)],
  ['^\\d', '1'],
  ['^(?!', 'other'],
  ['', 'a'],
]

function buildSmallestText({ format, pattern = '', minLength = 0 }: TSchema): string {
  if (format) return TEXTS[format] ?? 'a'
  if (pattern) return PATTERNS.find(([start]) => pattern.startsWith(start))?.[1] ?? 'a'
  return 'a'.repeat(Math.max(minLength, 1))
}

/** Builds a small value that matches the schema. */
export function buildSmallest(schema: TSchema): unknown {
  if (schema.const !== undefined) return schema.const
  if (schema.anyOf) return buildSmallest(schema.anyOf[0])
  switch (schema.type) {
    case 'string':
      return buildSmallestText(schema)
    case 'number':
    case 'integer':
      return Math.max(schema.minimum ?? 1, schema.exclusiveMinimum === 0 ? 1 : 0, 0)
    case 'boolean':
      return true
    case 'null':
      return null
    case 'array':
      return Array.from({ length: schema.minItems ?? 0 }, () => buildSmallest(schema.items))
    case 'object':
      return Object.fromEntries(
        ((schema.required ?? []) as string[]).map(name => [
          name,
          buildSmallest(schema.properties[name]),
        ]),
      )
    default:
      return 'x'
  }
}
