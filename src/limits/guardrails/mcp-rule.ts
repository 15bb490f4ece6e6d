import { type Static, type TObject, Type } from '@sinclair/typebox'
import { invalid } from '../../base/errors.ts'
import { isObject } from '../../base/json.ts'
import { closed, oneOf } from '../../base/schema-builders.ts'
import { MCP_LABEL } from '../../config/tools.ts'
import type { IdentityWorld } from '../../resources/world.ts'
import { checkPattern } from '../filters.ts'

const LONGEST = 1_000
const FieldName = Type.String({ maxLength: 200 })
const Size = Type.Optional(Type.Integer({ minimum: 0 }))

/** What each type of JSON Schema may say beside `type` and `enum`. */
const WORDS = {
  array: ['items', 'maxItems'],
  boolean: [],
  integer: ['maximum', 'minimum'],
  null: [],
  number: ['maximum', 'minimum'],
  object: ['additionalProperties', 'properties', 'required'],
  string: ['maxLength', 'minLength', 'pattern'],
} as const

/** A JSON Schema of which the gateway checks every word. What it has no word for is refused by name. */
const ArgumentSchema = (depth: number): TObject =>
  Type.Object(
    {
      type: Type.Optional(oneOf(...(Object.keys(WORDS) as (keyof typeof WORDS)[]))),
      enum: Type.Optional(
        Type.Array(Type.Union([Type.String({ maxLength: 1_000 }), Type.Number(), Type.Boolean()]), {
          maxItems: LONGEST,
        }),
      ),
      pattern: Type.Optional(
        Type.String({ maxLength: 1_000, description: 'A pattern as content filters have it' }),
      ),
      minLength: Size,
      maxLength: Size,
      minimum: Type.Optional(Type.Number()),
      maximum: Type.Optional(Type.Number()),
      ...(depth === 0
        ? {}
        : {
            items: Type.Optional(ArgumentSchema(depth - 1)),
            maxItems: Size,
            properties: Type.Optional(
              Type.Record(FieldName, ArgumentSchema(depth - 1), {
                ...closed,
                maxProperties: LONGEST,
              }),
            ),
            required: Type.Optional(Type.Array(FieldName, { maxItems: LONGEST })),
            additionalProperties: Type.Optional(Type.Boolean()),
          }),
    },
    closed,
  )

/** How deep the schemas of arguments go. */
const DEEPEST = 2

const TOOL_NAME = '^[A-Za-z0-9_-]{1,64}:[A-Za-z0-9_./:-]{1,128}$'
const LONGEST_TOOL = 64 + 1 + 128

/** What a guardrail allows at `/mcp`: our own field. An empty list allows nothing. */
export const McpRule = Type.Object(
  {
    servers: Type.Optional(
      Type.Array(Type.String({ pattern: MCP_LABEL, maxLength: 64 }), {
        maxItems: LONGEST,
        description: 'The servers that may be used, by label; all when omitted',
      }),
    ),
    tools: Type.Optional(
      Type.Array(
        Type.String({ pattern: TOOL_NAME, maxLength: LONGEST_TOOL, title: 'server:tool' }),
        {
          maxItems: LONGEST,
          description: 'The tools that may be used, as server:tool; all when omitted',
        },
      ),
    ),
    arguments: Type.Optional(
      Type.Record(Type.String({ title: 'server:tool' }), ArgumentSchema(DEEPEST), {
        ...closed,
        maxProperties: LONGEST,
        description: 'By server:tool: a JSON Schema that the arguments of a call must match',
      }),
    ),
  },
  { ...closed, description: 'What may be used at /mcp' },
)
export type McpRule = Static<typeof McpRule>

/**
 * Checks the schemas of a rule. Throws 400 for a word without its type, since it says nothing of
 * other values, for an invalid pattern, and for arguments of a server that is not in the config.
 */
export async function checkMcpRule(
  { config: { mcp_servers } }: IdentityWorld,
  rule: McpRule,
): Promise<void> {
  for (const [tool, schema] of Object.entries(rule.arguments ?? {})) {
    const field = `mcp.arguments.${tool}`
    const label = new RegExp(TOOL_NAME).test(tool) ? tool.slice(0, tool.indexOf(':')) : ''
    if (!Object.hasOwn(mcp_servers, label))
      throw invalid(`${field}: expected server:tool, with a server of mcp_servers`, field)
    for (const { at, words } of listSchemas({ type: 'object', ...schema }, field)) {
      checkWords(words, at)
      if (typeof words.pattern === 'string') await checkPattern(words.pattern, `${at}.pattern`)
    }
  }
}

interface PlacedSchema {
  at: string
  words: Record<string, unknown>
}

function* listSchemas(words: Record<string, unknown>, at: string): Iterable<PlacedSchema> {
  yield { at, words }
  if (isObject(words.items)) yield* listSchemas(words.items, `${at}.items`)
  if (isObject(words.properties))
    for (const [name, member] of Object.entries(words.properties))
      if (isObject(member)) yield* listSchemas(member, `${at}.properties.${name}`)
}

function checkWords({ type, enum: _, ...words }: Record<string, unknown>, at: string): void {
  for (const word of Object.keys(words)) {
    const types = Object.entries(WORDS)
      .filter(([, allowed]) => (allowed as readonly string[]).includes(word))
      .map(([name]) => name)
    if (types.includes(String(type))) continue
    const field = `${at}.${word}`
    throw invalid(`${field}: expected with the type ${types.join(' or ')} beside it`, field)
  }
}
