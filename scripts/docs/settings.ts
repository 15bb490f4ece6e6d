import type { TSchema } from '@sinclair/typebox'

/** One setting of the config file. */
export interface Setting {
  /** Its path: `*` stands for a name, `[]` for each entry of a list. */
  path: string
  /** What it takes, in words. */
  type: string
  /** Its default as YAML, or undefined. */
  default: string | undefined
  /** What it means, or undefined. */
  description: string | undefined
}

/** Lists every setting of a config schema, in the order of the schema. */
export function listSettings(schema: TSchema, path = ''): Setting[] {
  const below = listChildren(schema, path)
  if (!path) return below
  const own = toSetting(schema, path)
  // A section says nothing but that it is one.
  return below.length > 0 && !own.description ? below : [own, ...below]
}

function listChildren(schema: TSchema, path: string): Setting[] {
  const prefix = path ? `${path}.` : ''
  if (schema.anyOf) return schema.anyOf.flatMap((one: TSchema) => listChildren(one, path))
  if (schema.properties) {
    const entries = Object.entries<TSchema>(schema.properties)
    return entries.flatMap(([name, child]) => listSettings(child, `${prefix}${name}`))
  }
  const [values] = Object.values<TSchema>(schema.patternProperties ?? {})
  if (values) return listChildren(values, `${prefix}*`)
  return schema.type === 'array' ? listChildren(schema.items, `${path}[]`) : []
}

const toSetting = (schema: TSchema, path: string): Setting => ({
  path,
  type: describeType(schema),
  default: isPlain(schema.default) ? String(schema.default) : undefined,
  description: schema.description,
})

const isPlain = (value: unknown) => value !== undefined && typeof value !== 'object'

function describeType(schema: TSchema): string {
  if ('const' in schema) return `\`${schema.const}\``
  if (schema.anyOf) return schema.anyOf.map(describeType).join(', ')
  if (schema.type === 'array') return `list of ${describeType(schema.items)}`
  if (schema.patternProperties) return 'by name'
  if (schema.type === 'integer' || schema.type === 'number')
    return `${schema.type}${describeBounds(schema)}`
  return schema.type === 'object' ? 'section' : String(schema.type ?? 'any')
}

function describeBounds({ minimum, exclusiveMinimum, maximum }: TSchema): string {
  const from = minimum ?? exclusiveMinimum
  if (from === undefined && maximum === undefined) return ''
  const least = exclusiveMinimum === undefined ? `from ${from}` : `above ${from}`
  return maximum === undefined ? `, ${least}` : `, ${least} to ${maximum}`
}

/** Renders settings as a table in Markdown. */
export function renderSettings(settings: Setting[]): string {
  const rows = settings.map(
    ({ path, type, default: value, description }) =>
      `| \`${path}\` | ${type.replaceAll('|', '\\|')} | ${value === undefined ? '' : `\`${value}\``} | ${description ?? ''} |\n`,
  )
  return `| Setting | Takes | Default | Meaning |\n| --- | --- | --- | --- |\n${rows.join('')}`
}
