import { PUBLIC_PROVIDERS } from '../../catalog/byok/providers.data.ts'
import { modelCalled } from '../../catalog/models.ts'
import { slugsOfCalled } from '../../catalog/providers/called.ts'
import { invalid } from '../../errors.ts'
import { defined, pickGiven } from '../../kernel/json.ts'
import { nanosOf } from '../../kernel/money.ts'
import { checkPattern } from '../filters.ts'
import type { PolicyWorld } from '../world.ts'
import { FIELDS, type GuardrailChange } from './schema.ts'
import type { Guardrail } from './store.ts'

/** The settings of a guardrail, without its identity and dates. */
export type Fields = Omit<
  Guardrail,
  'id' | 'workspace_id' | 'name' | 'revision' | 'created_at' | 'updated_at'
>

/** The fields of a guardrail that sets nothing. */
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
 * Reads the fields that a body sets, as they are stored. Models are stored by their slug, whichever
 * of their names the body uses; the deprecated `enforce_zdr` is copied into each group that is not
 * set. Throws 400 for an unknown model or provider, since a misspelt one would ignore nothing, and
 * for an invalid pattern.
 */
export async function fieldsOf(
  gateway: PolicyWorld,
  given: GuardrailChange,
): Promise<Partial<Fields>> {
  const {
    allowed_models,
    ignored_models,
    allowed_providers,
    ignored_providers,
    content_filter_builtins,
    content_filters,
    limit_usd,
  } = given
  for (const [i, { pattern }] of content_filters?.entries() ?? [])
    await checkPattern(pattern, `content_filters.${i}.pattern`)
  const fields = {
    ...plainFieldsOf(given),
    ...copiedZdr(given),
    allowed_models: modelsOf(gateway, 'allowed_models', allowed_models),
    ignored_models: modelsOf(gateway, 'ignored_models', ignored_models),
    allowed_providers: providersOf(gateway, 'allowed_providers', allowed_providers),
    ignored_providers: providersOf(gateway, 'ignored_providers', ignored_providers),
    // Field by field: an entry may have more fields than are stored, and the label is the system's.
    content_filter_builtins:
      content_filter_builtins?.map(({ label: _, ...one }) => builtinOf(one)) ??
      (content_filter_builtins as null | undefined),
    content_filters:
      content_filters?.map(({ pattern, action, label = null }) => ({ pattern, action, label })) ??
      (content_filters as null | undefined),
    limit_usd: limit_usd == null ? limit_usd : nanosOf(limit_usd),
  }
  return defined(fields)
}

function plainFieldsOf(given: GuardrailChange): Partial<Fields> {
  const distinct = (value: unknown) => (Array.isArray(value) ? [...new Set(value)] : value)
  return Object.fromEntries(
    Object.entries(pickGiven(given, FIELDS)).map(([name, value]) => [name, distinct(value)]),
  )
}

function copiedZdr({ enforce_zdr, ...given }: GuardrailChange): Partial<Fields> {
  return enforce_zdr === undefined
    ? {}
    : Object.fromEntries(
        ZDR_GROUPS.filter(one => given[one] === undefined).map(one => [one, enforce_zdr]),
      )
}

type Builtin = NonNullable<GuardrailChange['content_filter_builtins']>[number]

const builtinOf = ({ slug, action, scan_scope }: Omit<Builtin, 'label'>) => ({
  slug,
  action,
  ...(scan_scope === undefined ? {} : { scan_scope }),
})

function modelsOf(
  gateway: PolicyWorld,
  field: string,
  said: string[] | null | undefined,
): string[] | null | undefined {
  const slugs = said?.map(
    (name, i) =>
      modelCalled(gateway, name)?.id ?? unknown(field, i, name, 'a model of this gateway'),
  )
  return slugs ? [...new Set(slugs)] : (said as null | undefined)
}

function providersOf(
  { catalog }: PolicyWorld,
  field: string,
  said: string[] | null | undefined,
): string[] | null | undefined {
  const isKnown = (name: string) =>
    PUBLIC_PROVIDERS.includes(name) || slugsOfCalled(catalog.providers.values(), name).length > 0
  for (const [i, name] of said?.entries() ?? [])
    if (!isKnown(name)) unknown(field, i, name, 'a known provider')
  return said && [...new Set(said)]
}

function unknown(field: string, i: number, name: string, expected: string): never {
  throw invalid(
    `${field}.${i}: expected ${expected}, found ${JSON.stringify(name)}`,
    `${field}.${i}`,
  )
}
