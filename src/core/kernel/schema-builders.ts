import {
  type SchemaOptions,
  type TLiteral,
  type TSchema,
  type TUnion,
  Type,
} from '@sinclair/typebox'

/**
 * An object that may hold fields other than its own: they are forwarded or ignored, never refused.
 */
export const open = { additionalProperties: true }

/** An object that may hold no other fields than its own. */
export const closed = { additionalProperties: false }

/** A value that may be null. */
export const nullable = <T extends TSchema>(schema: T, options?: SchemaOptions) =>
  Type.Union([schema, Type.Null()], options)

/** A field that may be absent or null. */
export const optional = <T extends TSchema>(schema: T) => Type.Optional(nullable(schema))

/** One of these words. */
export const oneOf = <const Words extends readonly string[]>(...words: Words) =>
  Type.Union(words.map(word => Type.Literal(word))) as unknown as TUnion<{
    -readonly [I in keyof Words]: TLiteral<Words[I]>
  }>

/** A boolean in a query, where everything is text. */
export const TrueOrFalse = oneOf('true', 'false')

/** An id that is a UUID. */
export const Uuid = Type.String({ format: 'uuid' })
