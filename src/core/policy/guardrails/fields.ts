import { PUBLIC_PROVIDERS } from '../../catalog/byok/providers.data.ts'
import { findModel } from '../../catalog/models.ts'
import { findProviderSlugs } from '../../catalog/providers/names.ts'
import { invalid } from '../../errors.ts'
import { omitUndefined, pickDefined } from '../../kernel/json.ts'
import { toNanos } from '../../kernel/money.ts'
import { checkPattern } from '../filters.ts'
import type { PolicyWorld } from '../world.ts'
import { FIELDS, type GuardrailChange } from './schema.ts'
import type { Guardrail } from './store.ts'

/** The settings of a guardrail, without its identity and dates. */
export type GuardrailFields = Omit<
  Guardrail,
  'id' | 'workspace_id' | 'name' | 'revision' | 'created_at' | 'updated_at'
>

/** The fields of a guardrail that sets nothing. */
export const EMPTY_FIELDS: GuardrailFields = {
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

const ZDR_FIELDS = [
  'enforce_zdr_anthropic',
  'enforce_zdr_google',
  'enforce_zdr_openai',
  'enforce_zdr_other',
  'enforce_zdr_xai',
] as const satisfies (keyof GuardrailFields)[]

/**
 * Reads the fields that a body sets, as they are stored. Models are stored by their slug, whichever
 * of their names the body uses; the deprecated `enforce_zdr` is copied into each group that is not
 * set. Throws 400 for an unknown model or provider, since a misspelt one would ignore nothing, and
 * for an invalid pattern.
 */
export async function readGuardrailFields(
  world: PolicyWorld,
  change: GuardrailChange,
): Promise<Partial<GuardrailFields>> {
  const {
    allowed_models,
    ignored_models,
    allowed_providers,
    ignored_providers,
    content_filter_builtins,
    content_filters,
    limit_usd,
  } = change
  for (const [i, { pattern }] of content_filters?.entries() ?? [])
    await checkPattern(pattern, `content_filters.${i}.pattern`)
  const fields = {
    ...pickPlainFields(change),
    ...copyZdr(change),
    allowed_models: resolveModelSlugs(world, 'allowed_models', allowed_models),
    ignored_models: resolveModelSlugs(world, 'ignored_models', ignored_models),
    allowed_providers: checkProviderNames(world, 'allowed_providers', allowed_providers),
    ignored_providers: checkProviderNames(world, 'ignored_providers', ignored_providers),
    // Field by field: an entry may have more fields than are stored, and the label is the system's.
    content_filter_builtins:
      content_filter_builtins?.map(({ label: _, ...builtin }) => toBuiltinEntry(builtin)) ??
      (content_filter_builtins as null | undefined),
    content_filters:
      content_filters?.map(({ pattern, action, label = null }) => ({ pattern, action, label })) ??
      (content_filters as null | undefined),
    limit_usd: limit_usd == null ? limit_usd : toNanos(limit_usd),
  }
  return omitUndefined(fields)
}

function pickPlainFields(change: GuardrailChange): Partial<GuardrailFields> {
  const removeDuplicates = (value: unknown) => (Array.isArray(value) ? [...new Set(value)] : value)
  return Object.fromEntries(
    Object.entries(pickDefined(change, FIELDS)).map(([name, value]) => [
      name,
      removeDuplicates(value),
    ]),
  )
}

function copyZdr({ enforce_zdr, ...groups }: GuardrailChange): Partial<GuardrailFields> {
  return enforce_zdr === undefined
    ? {}
    : Object.fromEntries(
        ZDR_FIELDS.filter(field => groups[field] === undefined).map(field => [field, enforce_zdr]),
      )
}

type BuiltinEntry = NonNullable<GuardrailChange['content_filter_builtins']>[number]

const toBuiltinEntry = ({ slug, action, scan_scope }: Omit<BuiltinEntry, 'label'>) => ({
  slug,
  action,
  ...(scan_scope === undefined ? {} : { scan_scope }),
})

function resolveModelSlugs(
  world: PolicyWorld,
  field: string,
  names: string[] | null | undefined,
): string[] | null | undefined {
  const slugs = names?.map(
    (name, i) =>
      findModel(world, name)?.id ?? throwUnknownName(field, i, name, 'a model of this gateway'),
  )
  return slugs ? [...new Set(slugs)] : (names as null | undefined)
}

function checkProviderNames(
  { catalog }: PolicyWorld,
  field: string,
  names: string[] | null | undefined,
): string[] | null | undefined {
  const isKnown = (name: string) =>
    PUBLIC_PROVIDERS.includes(name) ||
    findProviderSlugs(catalog.providers.values(), name).length > 0
  for (const [i, name] of names?.entries() ?? [])
    if (!isKnown(name)) throwUnknownName(field, i, name, 'a known provider')
  return names && [...new Set(names)]
}

function throwUnknownName(field: string, i: number, name: string, expected: string): never {
  throw invalid(
    `${field}.${i}: expected ${expected}, found ${JSON.stringify(name)}`,
    `${field}.${i}`,
  )
}
