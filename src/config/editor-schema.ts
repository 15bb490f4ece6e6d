import type { TSchema } from '@sinclair/typebox'

type JsonSchema = Record<string, unknown>

/** The file beside a config that has its schema. */
export const SCHEMA_FILE = 'gateway.schema.json'

/** The line that tells editors which schema a config file has; it belongs at its beginning. */
export const SCHEMA_LINE = `# yaml-language-server: $schema=./${SCHEMA_FILE}`

/** A text with `${NAME}` in it, whose value is known only when the gateway starts. */
const VARIABLE = '\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}'

/** The formats of our own as patterns, which every validator knows. */
const PATTERNS: Record<string, string> = {
  slug: '^[a-z0-9][a-z0-9.:-]*$',
  url: '^https?://',
  'address-range': '^[0-9a-fA-F.:]+(/[0-9]{1,3})?$',
  'host:port': '^.+:[0-9]{1,5}$',
  'host[:port]': '^(\\[[0-9a-f:.]+\\]|[a-z0-9._-]+)(:[0-9]{1,5})?$',
  'visible-ascii': '^[!-~]([ -~]*[!-~])?$',
}

/**
 * Builds the JSON Schema (draft 2020-12) of a config file as people write it, from that of a config
 * with every default filled in: settings with a default may be left out, and `${NAME}` may stand
 * for a text or a number. It accepts every file that the gateway takes; what it accepts may still be
 * refused, such as a price that no model needs.
 */
export const buildEditorSchema = (schema: TSchema): JsonSchema => ({
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'urn:gateway:config',
  title: 'gateway.yaml',
  description: 'The settings of a gateway. Every one has a default.',
  ...convert(schema),
})

function convert(schema: TSchema): JsonSchema {
  if (schema.anyOf) return convertUnion(schema)
  if (schema.type === 'object') return convertObject(schema)
  if (schema.type === 'array') return { ...schema, items: convert(schema.items) }
  if (schema.type === 'string') return convertText(schema)
  if (schema.type === 'number' || schema.type === 'integer') return convertNumber(schema)
  return { ...schema }
}

/** Words become an enum, which editors offer for completion. */
function convertUnion({ anyOf, ...rest }: TSchema): JsonSchema {
  const members = anyOf as TSchema[]
  return members.every(member => member.const !== undefined)
    ? { ...rest, enum: members.map(member => member.const) }
    : { ...rest, anyOf: members.map(convert) }
}

function convertObject({ properties, patternProperties, required, ...rest }: TSchema): JsonSchema {
  const members = Object.entries((properties ?? {}) as Record<string, TSchema>)
  const named = Object.entries((patternProperties ?? {}) as Record<string, TSchema>)
  const needed = ((required ?? []) as string[]).filter(
    name => (properties as Record<string, TSchema>)[name]?.default === undefined,
  )
  return {
    ...rest,
    // A section whose lines are all comments is null.
    ...(rest.default === undefined ? {} : { type: ['object', 'null'] }),
    ...(members.length > 0 ? { properties: convertAll(members) } : {}),
    ...(named.length > 0 ? { patternProperties: convertAll(named) } : {}),
    ...(needed.length > 0 ? { required: needed } : {}),
  }
}

const convertAll = (entries: [string, TSchema][]): Record<string, JsonSchema> =>
  Object.fromEntries(entries.map(([name, schema]) => [name, convert(schema)]))

function convertText({ format, pattern = PATTERNS[format], ...rest }: TSchema): JsonSchema {
  return pattern === undefined ? { ...rest } : { ...rest, pattern: `${VARIABLE}|${pattern}` }
}

function convertNumber({ description, default: value, ...rest }: TSchema): JsonSchema {
  return {
    ...(description === undefined ? {} : { description }),
    ...(value === undefined ? {} : { default: value }),
    anyOf: [rest, { type: 'string', pattern: `^${VARIABLE}$` }],
  }
}
