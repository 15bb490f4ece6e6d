import type { TSchema } from '@sinclair/typebox'
import { isObject, type Json } from '../../src/base/json.ts'
import { buildSmallest } from './largest.ts'

/** A field of a schema that takes a number, and a body in which it has some value. */
export interface NumberField {
  name: string
  build(value: unknown): Json
}

type Wrap = (value: unknown) => unknown

/** Lists every field of a body or query that takes a number, in every place and kind of it. */
export const listNumberFields = (schema: TSchema): NumberField[] => [
  ...walk(schema, '', value => value),
]

function* walk(schema: TSchema, name: string, wrap: Wrap): Generator<NumberField> {
  const variants = (schema.anyOf as TSchema[] | undefined) ?? [schema]
  if (name && variants.some(takesNumber)) yield { name, build: value => wrap(value) as Json }
  for (const variant of variants) {
    if (variant.anyOf) yield* walk(variant, name, wrap)
    else if (variant.type === 'object') yield* walkObject(variant, name, wrap)
    else if (variant.type === 'array')
      yield* walk(variant.items as TSchema, `${name}[${findTag(variant.items)}]`, value =>
        wrap([value]),
      )
  }
}

// A query is text, of which the numbers have a pattern.
const takesNumber = ({ type, pattern }: TSchema): boolean =>
  type === 'number' || type === 'integer' || /^\^-?\??\\d/.test(pattern ?? '')

function* walkObject(schema: TSchema, name: string, wrap: Wrap): Generator<NumberField> {
  const base = buildSmallest(schema) as Json
  const label = findTag(schema) ? `${name}<${findTag(schema)}>` : name
  for (const [field, member] of Object.entries(
    (schema.properties ?? {}) as Record<string, TSchema>,
  ))
    yield* walk(member, label ? `${label}.${field}` : field, value =>
      wrap({ ...base, [field]: value }),
    )
}

/** Finds what tells this kind of object from others. */
function findTag({ properties = {} }: TSchema): string {
  const tag = properties.type ?? properties.id
  return tag?.const ?? tag?.anyOf?.[0]?.const ?? ''
}

/** Puts two bodies together, so that each field is still there. */
export function mergeBodies(first: Json, second: Json): Json {
  const merged = { ...second, ...first }
  for (const [name, value] of Object.entries(second))
    if (Array.isArray(value) && Array.isArray(first[name]))
      merged[name] = [...value, ...first[name]]
    else if (isObject(value) && isObject(first[name])) merged[name] = { ...value, ...first[name] }
  return merged
}
