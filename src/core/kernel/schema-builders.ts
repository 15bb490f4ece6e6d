import {
  type SchemaOptions,
  type TLiteral,
  type TSchema,
  type TUnion,
  Type,
} from '@sinclair/typebox'

/**
 * Allows fields that the schema does not name. They are forwarded or ignored, never refused.
 */
export const open = { additionalProperties: true }

/** Refuses fields that the schema does not name. */
export const closed = { additionalProperties: false }

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
export const Uuid = Type.String({ format: 'uuid' })
