import {
  type ArrayOptions,
  type SchemaOptions,
  type TLiteral,
  type TSchema,
  type TUnion,
  Type,
} from '@sinclair/typebox'

/** The largest JSON body that is accepted, in bytes. No text in one has more characters. */
export const LARGEST_BODY = 32 * 1024 * 1024
/** The most items of a list of contents. Anthropic accepts as many messages, others fewer. */
export const MAX_ITEMS = 100_000

/** A text for a model, or the data of a file: as long as the body may be. */
export const Content = Type.String({ maxLength: LARGEST_BODY })
/** A content that is not empty. */
export const SomeContent = Type.String({ minLength: 1, maxLength: LARGEST_BODY })

/** The most characters of a name: of a model, a provider, a tool, a file. */
export const LONGEST_NAME = 1_024
/** A name, which may be empty. */
export const Name = Type.String({ maxLength: LONGEST_NAME })
/** A name that is not empty. */
export const SomeName = Type.String({ minLength: 1, maxLength: LONGEST_NAME })

// Some clients keep a provider's state in the ids of tool calls, such as Gemini's signatures.
const LONGEST_ID = 64 * 1024
/** An id that another system made. */
export const Id = Type.String({ maxLength: LONGEST_ID })
/** An id that is not empty. */
export const SomeId = Type.String({ minLength: 1, maxLength: LONGEST_ID })

/** Builds the schema of a whole number, from this one up to the largest that is exact. */
export const buildCount = (minimum: number) =>
  Type.Integer({ minimum, maximum: Number.MAX_SAFE_INTEGER })

/** Builds the schema of a list. It has at most `MAX_ITEMS` items unless the options say fewer. */
export const list = <T extends TSchema>(items: T, options: ArrayOptions = {}) =>
  Type.Array(items, { maxItems: MAX_ITEMS, ...options })

/**
 * Allows fields that the schema does not name. They are forwarded or ignored, never refused.
 */
export const open = { additionalProperties: true }

/** Refuses fields that the schema does not name. */
export const closed = { additionalProperties: false }

/**
 * Returns a schema whose objects refuse fields that they do not name, at any depth, unless they say
 * themselves that they are open. A misspelt rule would else be a rule that nobody keeps.
 */
export function closeSchema<T extends TSchema>(schema: T): T {
  const { properties, items, anyOf } = schema as TSchema & Nested
  return {
    ...schema,
    ...(items ? { items: closeSchema(items) } : {}),
    ...(anyOf ? { anyOf: anyOf.map(closeSchema) } : {}),
    ...(properties
      ? {
          additionalProperties: schema.additionalProperties ?? false,
          properties: Object.fromEntries(
            Object.entries(properties).map(([name, field]) => [name, closeSchema(field)]),
          ),
        }
      : {}),
  }
}

/** What a schema may have below it. */
interface Nested {
  properties?: Record<string, TSchema>
  items?: TSchema
  anyOf?: TSchema[]
}

/** Builds the schema of a value that may be null. */
export const nullable = <T extends TSchema>(schema: T, options?: SchemaOptions) =>
  Type.Union([schema, Type.Null()], options)

/** Builds the schema of a field that may be absent or null. */
export const optional = <T extends TSchema>(schema: T) => Type.Optional(nullable(schema))

/** Builds the schema of a string that is one of these words. */
export const oneOf = <const Words extends readonly string[]>(...words: Words) =>
  Type.Union(words.map(word => Type.Literal(word))) as unknown as TUnion<{
    -readonly [I in keyof Words]: TLiteral<Words[I]>
  }>

/** A boolean in a query string, where every value is text. */
export const TrueOrFalse = oneOf('true', 'false')

/** An id that is a UUID. */
export const Uuid = Type.String({ format: 'uuid', maxLength: 36 })

/** A time in ISO 8601, in UTC and with seconds. */
export const UtcTime = Type.String({ format: 'utc-time', maxLength: 40 })
