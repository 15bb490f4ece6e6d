import type { Gateway } from '../app/gateway.ts'
import { invalid } from '../base/errors.ts'
import { lowerUuid } from '../base/schema.ts'
import type { Actor } from '../resources/actor.ts'

/** Something that a command line may name. */
export interface Named {
  id: string
  /**
   * What people call it: the first kind of name decides before the second. Several things may share
   * a name.
   */
  names: (string | null)[]
}

/** What the things are called, and where they are. */
export interface Naming {
  /** One of them, for a sentence: `API key`. */
  noun: string
  /** What an id looks like, where a text of another form can only be a name. */
  form?: RegExp
  /** Lists those that a text may name, or all. */
  list(gateway: Gateway, actor: Actor, text: string): Named[] | Promise<Named[]>
}

/** How a text named something. */
export interface Match extends Named {
  /** Whether it is the whole id or a whole name, and not the beginning of one. */
  isWhole: boolean
}

/**
 * Finds what a text names: by its id, else by its name, else by a beginning of either that only one
 * has. Undefined where nothing is meant, so that the core can say what is missing. Throws 400 with
 * the candidates where several are meant.
 */
export async function findNamed(
  naming: Naming,
  gateway: Gateway,
  actor: Actor,
  text: string,
): Promise<Match | undefined> {
  const all = await naming.list(gateway, actor, text)
  const id = lowerUuid(text)
  const exact = all.find(named => named.id === text || named.id === id)
  if (exact) return { ...exact, isWhole: true }
  const byName = findByName(all, text)
  if (byName.length > 0) return { ...takeOnly(naming, text, byName), isWhole: true }
  const begins = (name: string | null) => text !== '' && name?.startsWith(text) === true
  const byPrefix = all.filter(({ id, names }) => begins(id) || names.some(begins))
  return byPrefix.length === 0 ? undefined : { ...takeOnly(naming, text, byPrefix), isWhole: false }
}

function findByName(all: Named[], text: string): Named[] {
  const kinds = Math.max(0, ...all.map(({ names }) => names.length))
  for (let kind = 0; kind < kinds; kind++) {
    const found = all.filter(({ names }) => names[kind] === text)
    if (found.length > 0) return found
  }
  return []
}

/** Finds the id that a text names, as `findNamed` does. A text that names nothing stays itself. */
export const findId = async (
  naming: Naming,
  gateway: Gateway,
  actor: Actor,
  text: string,
): Promise<string> => (await findNamed(naming, gateway, actor, text))?.id ?? text

const MOST_CANDIDATES = 10

function takeOnly({ noun }: Naming, text: string, found: Named[]): Named {
  const [only, ...others] = found
  if (only && others.length === 0) return only
  const shown = found.slice(0, MOST_CANDIDATES).map(describeNamed)
  const more = found.length > MOST_CANDIDATES ? `, and ${found.length - MOST_CANDIDATES} more` : ''
  throw invalid(`${text}: expected one ${noun}, found ${found.length}: ${shown.join(', ')}${more}`)
}

/** Describes a thing by its id and its name: `3f2a… (prod)`. */
export function describeNamed({ id, names }: Named): string {
  const name = names.find(one => one !== null && one !== '')
  return name === undefined ? id : `${id} (${name})`
}

/** API keys, by hash, name or label. */
export const KEYS: Naming = {
  noun: 'API key',
  form: /^[0-9a-f]{64}$/,
  list: ({ memory: { keys } }) =>
    Array.from(keys.values(), ({ hash, name, label }) => ({ id: hash, names: [name, label] })),
}

/** Workspaces, by id, slug or name. */
export const WORKSPACES: Naming = {
  noun: 'workspace',
  list: ({ memory: { workspaces } }) =>
    Array.from(workspaces.values(), ({ id, slug, name }) => ({ id, names: [slug, name] })),
}

/** Members, by id or e-mail address. */
export const MEMBERS: Naming = {
  noun: 'member',
  list: async ({ store: { members } }) =>
    (await members.list(0, await members.count())).map(({ id, email }) => ({ id, names: [email] })),
}

/** Own provider keys, by id, name or label. */
export const BYOK_KEYS: Naming = {
  noun: 'provider key',
  list: ({ memory: { byok } }) =>
    Array.from(byok.values(), ({ key: { id, name, label } }) => ({ id, names: [name, label] })),
}

/** Destinations, by id or name. */
export const DESTINATIONS: Naming = {
  noun: 'destination',
  list: ({ memory: { destinations } }) =>
    Array.from(destinations.values(), ({ destination: { id, name } }) => ({ id, names: [name] })),
}

/** Alerts, by id or name. */
export const ALERTS: Naming = {
  noun: 'alert',
  list: ({ memory: { alerts } }) =>
    Array.from(alerts.values(), ({ id, name }) => ({ id, names: [name] })),
}

/** Guardrails, by id or name. The id or slug of a workspace stands for its default one. */
export const GUARDRAILS: Naming = {
  noun: 'guardrail',
  list: async ({ memory: { guardrails, workspaces } }) => {
    const { getDefaultGuardrailId } = await import('../resources/default-guardrail.ts')
    const defaults = Array.from(workspaces.values(), ({ id, slug }) => ({
      id: getDefaultGuardrailId(id),
      names: [id, slug, guardrails.get(getDefaultGuardrailId(id))?.name ?? null],
    }))
    const others = Array.from(guardrails.values(), ({ id, name }) => ({
      id,
      names: [null, null, name],
    })).filter(({ id }) => !defaults.some(one => one.id === id))
    return [...defaults, ...others]
  },
}

/** How many calls are looked at that a text may name. */
const MOST_CALLS = 100

/** Finished calls, by id, or by the request id that their caller saw. */
export const GENERATIONS: Naming = {
  noun: 'call',
  list: async ({ store: { generations } }, _, text) => {
    const found = await generations.list({ id: text }, MOST_CALLS)
    const ids = found.length > 0 ? [] : await generations.listIds(text, MOST_CALLS)
    return [
      ...found.map(({ id, request_id }) => ({ id, names: [request_id] })),
      ...ids.map(id => ({ id, names: [] })),
    ]
  },
}

/** Presets of the actor's workspace, by slug. */
export const PRESETS: Naming = {
  noun: 'preset',
  list: ({ memory: { presets } }, { workspace_id }) =>
    presets
      .filter(preset => preset.workspace_id === workspace_id)
      .map(({ slug }) => ({ id: slug, names: [] })),
}

/** Tokens of identity providers, by id, name or label. */
export const SCIM_TOKENS: Naming = {
  noun: 'SCIM token',
  list: async ({ store }) =>
    (await store.scim.tokens.all()).map(({ id, name, label }) => ({ id, names: [name, label] })),
}

/** Groups of identity providers, by id, name or the provider's own id. */
export const SCIM_GROUPS: Naming = {
  noun: 'group',
  list: async ({ store: { scim } }) =>
    (await scim.groups.listPage(0, await scim.groups.count())).map(
      ({ id, display_name, external_id }) => ({ id, names: [display_name, external_id] }),
    ),
}

/** Mappings of groups, by id. */
export const MAPPINGS: Naming = {
  noun: 'mapping',
  list: async ({ store: { scim } }) =>
    (await scim.mappings.listPage(0, await scim.mappings.count())).map(({ id }) => ({
      id,
      names: [],
    })),
}

/** Everything that the audit trail names. */
export const RESOURCES: Naming = {
  noun: 'resource',
  list: async (gateway, actor, text) => {
    const namings = [
      ...[KEYS, WORKSPACES, MEMBERS, BYOK_KEYS, DESTINATIONS, GUARDRAILS, SCIM_TOKENS],
      ...[MAPPINGS, ALERTS],
    ]
    return (await Promise.all(namings.map(({ list }) => list(gateway, actor, text)))).flat()
  },
}
