import type { PiModel } from './sources.ts'

/**
 * Finds the models behind the public service's `~author/family-latest` names: the highest version
 * of the family with the same price. `listed` is everything that the service lists, `known` what
 * the catalogue has.
 */
export function findLatestAliases(
  listed: PiModel[],
  known: Set<string>,
): [alias: string, slug: string][] {
  const moving = listed.filter(
    model => model.type === 'chat' && /^~[a-z-]+\/.*-latest$/.test(model.id),
  )
  const models = listed.filter(model => model.type === 'chat' && known.has(model.id))
  return moving.flatMap(model => {
    const target = findHighestVersion(model.id.slice(1, -'-latest'.length), models)
    return target && hasSameCost(target, model) ? [[model.id, target.id] as [string, string]] : []
  })
}

const hasSameCost = (a: PiModel, b: PiModel) =>
  a.cost.input === b.cost.input && a.cost.output === b.cost.output

function findHighestVersion(family: string, models: PiModel[]): PiModel | undefined {
  const members = models.filter(model => parseVersion(model.id, family) > 0)
  return members.sort((a, b) => parseVersion(b.id, family) - parseVersion(a.id, family))[0]
}

// `google/gemini-3.8-flash` is 3.8 of `google/gemini-flash`. `google/gemini-3.8-flash-lite` is not
// of that family.
function parseVersion(slug: string, family: string): number {
  const [author = '', name = ''] = slug.split('/')
  const words = name.split('-')
  const versions = words.filter(word => /^v?\d+(\.\d+)?$/.test(word))
  const rest = words.filter(word => !versions.includes(word))
  return versions.length === 1 && `${author}/${rest.join('-')}` === family
    ? Number(versions[0]?.replace('v', ''))
    : 0
}
