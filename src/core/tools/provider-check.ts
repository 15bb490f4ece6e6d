import type { CatalogWorld } from '../catalog/world.ts'
import { checkProviders, type ProviderCheck } from '../upstream/provider-check.ts'
import type { UpstreamWorld } from '../upstream/world.ts'
import { checkEngines, isEngineName } from './engine-check.ts'

/**
 * Checks every configured provider and engine, or the named ones, with requests that cost nothing.
 * An engine is named `web_search/exa`, `web_fetch/exa` or `file-parser/mistral-ocr`. Throws as `checkProviders` and `checkEngines` do.
 */
export async function checkAll(
  world: CatalogWorld & UpstreamWorld,
  names: string[],
  milliseconds: number,
): Promise<{ data: ProviderCheck[] }> {
  const engines = names.filter(isEngineName)
  const providers = names.filter(name => !isEngineName(name))
  const isForAll = names.length === 0
  const [checked, searched] = await Promise.all([
    isForAll || providers.length > 0
      ? checkProviders(world, providers, milliseconds)
      : { data: [] },
    isForAll || engines.length > 0 ? checkEngines(world, engines, milliseconds) : { data: [] },
  ])
  return { data: [...checked.data, ...searched.data] }
}
