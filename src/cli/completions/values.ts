import type { Gateway } from '../../app/gateway.ts'
import { toPrintable } from '../../base/printable.ts'
import type { Actor } from '../../resources/actor.ts'
import type { Candidate, ListValues } from '../completions.ts'
import { getDataDirectory, hasData } from '../data-directory.ts'
import { describeNamed, type Named, type Naming } from '../names.ts'
import { type CommonOptions, findWorkspaceId, loadConfig, toGatewayParts } from '../options.ts'
import type { ValueSource } from './sources.ts'

/** In milliseconds: how long Tab waits for a database that another process holds. */
const LONGEST_WAIT = 200

/**
 * Lists the values of a source as this data directory and its config have them. Nothing leaves the
 * host, and nothing is made where there is no data. Throws what opening them does.
 */
export const listLiveValues: ListValues = (source, text, options) =>
  withData(options, async (gateway, actor) =>
    typeof source === 'string'
      ? CATALOG[source](gateway)
      : nameAll(source, await source.list(gateway, actor, text), text),
  )

async function withData(
  { workspace, ...options }: CommonOptions & { workspace?: string },
  task: (gateway: Gateway, actor: Actor) => Promise<Candidate[]> | Candidate[],
): Promise<Candidate[]> {
  const { openGateway } = await import('../../app/gateway.ts')
  const { getOperator } = await import('../../resources/actor.ts')
  const parts = toGatewayParts(options, await loadConfig(options, { withoutSecrets: true }))
  const { config } = parts
  const isThere = hasData(getDataDirectory(options), config)
  const gateway = await openGateway(isThere ? { ...parts, busyTimeout: LONGEST_WAIT } : { config })
  try {
    const operator = getOperator(gateway)
    const workspace_id = (await findWorkspaceId(gateway, workspace)) ?? operator.workspace_id
    return await task(gateway, { ...operator, workspace_id })
  } finally {
    await gateway.close()
  }
}

/**
 * Names each thing by its name where that is the only one with it, else by its id. Ids are also
 * offered to those who have begun to type one.
 */
function nameAll(naming: Naming, all: Named[], text: string): Candidate[] {
  const counts = new Map<string, number>()
  for (const { names } of all)
    for (const name of new Set(names)) if (name) counts.set(name, (counts.get(name) ?? 0) + 1)
  return all.flatMap(named => {
    const name = named.names.find(one => one && counts.get(one) === 1 && canBeTyped(one))
    const byId = { value: named.id, meaning: describeNamed({ ...named, id: naming.noun }) }
    if (!name) return [byId]
    const byName = { value: name, meaning: `${naming.noun} ${named.id}` }
    return text !== '' && named.id.startsWith(text) ? [byName, byId] : [byName]
  })
}

/** Whether a name can stand on a line: one that looks like an option cannot. */
const canBeTyped = (name: string): boolean => !name.startsWith('-') && toPrintable(name) === name

const CATALOG: Record<
  Extract<ValueSource, 'models' | 'every model' | 'providers' | 'endpoints'>,
  (gateway: Gateway) => Promise<Candidate[]> | Candidate[]
> = {
  models: gateway => listModels(gateway, {}),
  'every model': gateway => listModels(gateway, { all: 'true' }),
  providers: ({ catalog }) =>
    Array.from(catalog.providers.values(), ({ slug, name, configured }) => ({
      value: slug,
      meaning: configured ? `${name}, configured` : name,
    })),
  endpoints: ({ catalog: { models } }) =>
    [...models.values()].flatMap(({ endpoints }) =>
      endpoints
        .filter(({ provider }) => provider.configured)
        .map(({ id, provider }) => ({ value: id, meaning: provider.name })),
    ),
}

async function listModels(gateway: Gateway, query: { all?: 'true' }): Promise<Candidate[]> {
  const core = await import('../../resources/models.ts')
  const { data } = core.listModels(gateway, { ...query, output_modalities: 'all' })
  return data.map(({ id, name }) => ({ value: id, meaning: name }))
}
