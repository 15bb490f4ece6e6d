import { type Static, Type } from '@sinclair/typebox'
import { PUBLIC_PROVIDERS } from '../../catalog/byok/providers.data.ts'
import { modelCalled } from '../../catalog/models.ts'
import { slugsOfCalled } from '../../catalog/providers/called.ts'
import { invalid } from '../../errors.ts'
import { nanosOf } from '../../kernel/money.ts'
import { PERIODS } from '../../kernel/periods.ts'
import { REGIONS } from '../../language/region.ts'
import { LABELS } from '../filters/labels.data.ts'
import { checkPattern, MOST_PATTERNS } from '../filters.ts'
import type { Guardrail } from '../guardrails.ts'
import type { PolicyWorld } from '../world.ts'

const nullable = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]))
const oneOf = <const Words extends readonly string[]>(words: Words) =>
  Type.Unsafe<Words[number]>(Type.Union(words.map(word => Type.Literal(word))))

/** More than anybody lists by hand, and little enough to be looked through. */
const LONGEST = 1_000
const List = nullable(Type.Array(Type.String({ minLength: 1, maxLength: 200 }), { minItems: 1, maxItems: LONGEST }))
const Flag = nullable(Type.Boolean())
const Action = oneOf(['redact', 'block', 'flag'])
const Label = Type.String({ maxLength: 100 })

const Builtin = Type.Object({
  slug: oneOf(Object.keys(LABELS) as (keyof typeof LABELS)[]),
  action: Action,
  label: Type.Optional(Label),
  scan_scope: Type.Optional(oneOf(['user_only', 'all_messages'])),
})

const Pattern = Type.Object({ pattern: Type.String({ minLength: 1 }), action: Action, label: nullable(Label) })

/** What a guardrail may be given, besides its name and its workspace (wire reference H.1). */
export const FIELDS = {
  description: nullable(Type.String({ maxLength: 1000 })),
  allowed_data_regions: nullable(Type.Array(oneOf(REGIONS), { minItems: 1, maxItems: LONGEST })),
  allowed_models: List,
  allowed_providers: List,
  ignored_models: List,
  ignored_providers: List,
  content_filter_builtins: nullable(Type.Array(Builtin, { maxItems: MOST_PATTERNS })),
  content_filters: nullable(Type.Array(Pattern, { maxItems: MOST_PATTERNS })),
  filterOutput: Type.Optional(Type.Boolean({ description: 'Scan what models say as well' })),
  enable_free_model_publication: Flag,
  enable_free_model_training: Flag,
  enable_paid_model_training: Flag,
  enforce_zdr: Flag,
  enforce_zdr_anthropic: Flag,
  enforce_zdr_google: Flag,
  enforce_zdr_openai: Flag,
  enforce_zdr_other: Flag,
  enforce_zdr_xai: Flag,
  // A billion dollars is what still fits a 64-bit count of nano-dollars with room to add.
  limit_usd: nullable(Type.Number({ minimum: 0, maximum: 1_000_000_000 })),
  reset_interval: nullable(oneOf(PERIODS)),
  include_byok_in_budgets: Type.Optional(Type.Boolean()),
}

const Given = Type.Object(FIELDS)
type Given = Static<typeof Given>

/** What a guardrail says, without what it is. */
export type Fields = Omit<Guardrail, 'id' | 'workspace_id' | 'name' | 'revision' | 'created_at' | 'updated_at'>

/** A guardrail that says nothing. */
export const NOTHING: Fields = {
  description: null,
  allowed_data_regions: null,
  allowed_models: null,
  allowed_providers: null,
  ignored_models: null,
  ignored_providers: null,
  content_filter_builtins: null,
  content_filters: null,
  filterOutput: false,
  enable_free_model_publication: null,
  enable_free_model_training: null,
  enable_paid_model_training: null,
  enforce_zdr: null,
  enforce_zdr_anthropic: null,
  enforce_zdr_google: null,
  enforce_zdr_openai: null,
  enforce_zdr_other: null,
  enforce_zdr_xai: null,
  limit_usd: null,
  reset_interval: null,
  include_byok_in_budgets: false,
}

const ZDR_GROUPS = [
  'enforce_zdr_anthropic',
  'enforce_zdr_google',
  'enforce_zdr_openai',
  'enforce_zdr_other',
  'enforce_zdr_xai',
] as const satisfies (keyof Fields)[]

/**
 * The fields that a body gives, as they are kept. Models go by their slug, whichever of their names was said; the deprecated `enforce_zdr`
 * is copied into each group that is not given. Throws 400 for a model or a provider that nobody is called, since a misspelt one would
 * ignore nothing, and for a pattern that cannot be scanned with.
 */
export async function fieldsOf(gateway: PolicyWorld, given: Given): Promise<Partial<Fields>> {
  const { allowed_models, ignored_models, allowed_providers, ignored_providers, content_filter_builtins, content_filters, limit_usd } =
    given
  for (const [i, { pattern }] of content_filters?.entries() ?? []) await checkPattern(pattern, `content_filters.${i}.pattern`)
  const fields = {
    ...plainFieldsOf(given),
    ...copiedZdr(given),
    allowed_models: modelsOf(gateway, 'allowed_models', allowed_models),
    ignored_models: modelsOf(gateway, 'ignored_models', ignored_models),
    allowed_providers: providersOf(gateway, 'allowed_providers', allowed_providers),
    ignored_providers: providersOf(gateway, 'ignored_providers', ignored_providers),
    // Field by field: an entry may hold more than is kept, and its label is the system's.
    content_filter_builtins: content_filter_builtins?.map(({ label: _, ...one }) => builtinOf(one)) ?? content_filter_builtins,
    content_filters: content_filters?.map(({ pattern, action, label = null }) => ({ pattern, action, label })) ?? content_filters,
    limit_usd: limit_usd == null ? limit_usd : nanosOf(limit_usd),
  }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

// A body may hold more than it may change.
const plainFieldsOf = (given: Given): Partial<Given> =>
  Object.fromEntries(
    (Object.keys(FIELDS) as (keyof Given)[]).map(name => [name, Array.isArray(given[name]) ? [...new Set(given[name])] : given[name]]),
  )

function copiedZdr({ enforce_zdr, ...given }: Given): Partial<Given> {
  return enforce_zdr === undefined
    ? {}
    : Object.fromEntries(ZDR_GROUPS.filter(one => given[one] === undefined).map(one => [one, enforce_zdr]))
}

const builtinOf = ({ slug, action, scan_scope }: Omit<Static<typeof Builtin>, 'label'>) => ({
  slug,
  action,
  ...(scan_scope === undefined ? {} : { scan_scope }),
})

function modelsOf(gateway: PolicyWorld, field: string, said: string[] | null | undefined): string[] | null | undefined {
  const slugs = said?.map((name, i) => modelCalled(gateway, name)?.id ?? unknown(field, i, name, 'a model of this gateway'))
  return slugs ? [...new Set(slugs)] : (said as null | undefined)
}

function providersOf({ catalog }: PolicyWorld, field: string, said: string[] | null | undefined): string[] | null | undefined {
  const isKnown = (name: string) => PUBLIC_PROVIDERS.includes(name) || slugsOfCalled(catalog.providers.values(), name).length > 0
  for (const [i, name] of said?.entries() ?? []) if (!isKnown(name)) unknown(field, i, name, 'a provider that is known')
  return said && [...new Set(said)]
}

function unknown(field: string, i: number, name: string, expected: string): never {
  throw invalid(`${field}.${i}: expected ${expected}, found ${JSON.stringify(name)}`, `${field}.${i}`)
}
