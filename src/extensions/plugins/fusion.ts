import type { Static } from '@sinclair/typebox'
import { GatewayError, invalid } from '../../base/errors.ts'
import type { Json } from '../../base/json.ts'
import type { FusionPreset } from '../../config/tools.ts'
import type { Config } from '../../config.ts'
import type { RouterInputs } from '../../engine/plan/router-candidates.ts'
import type { RouterDecision } from '../../engine/plan/router-decision.ts'
import type { Run } from '../../engine/run.ts'
import type { Work } from '../../language/work.ts'
import { Fusion } from '../../translation/dialects/plugin-entries.ts'
import type { Plugin } from '../plugin.ts'
import type { ToolWorld } from '../server-tool.ts'
import { readFusionOptions } from '../tools/fusion/options.ts'
import { fusion as tool } from '../tools/fusion.ts'
import { decideAutoRoute } from './auto-router.ts'
import { decideRandomRoute } from './free-router.ts'
import { createToolReading, offerTool } from './offered-tool.ts'
import { requireTool } from './require-tool.ts'
import { namesRouter } from './routers.ts'

/** The parameters of the tool, as the entry and its preset say, and where they stand. */
interface FusionPluginOptions {
  parameters: Json
  path: string
}

/**
 * The `fusion` plugin: the model is offered the tool that asks a panel, as if the call named it (wire
 * reference C.4). It decides for `gateway/fusion`, which has the tool unasked.
 */
export const fusion: Plugin<FusionPluginOptions> = {
  id: 'fusion',
  schema: Fusion,
  readOptions,
  imply: (world, call) =>
    namesRouter(world, call, 'fusion') ? { parameters: {}, path: 'plugins' } : undefined,
  prepare: offerPanel,
  decide,
}

function readOptions(entry: Json, path: string, config: Config): FusionPluginOptions {
  const { id: _, enabled: __, preset, ...given } = entry as Static<typeof Fusion>
  const named = preset == null ? {} : readPreset(preset, path, config)
  const set = Object.entries(given).filter(([, value]) => value != null)
  return { parameters: { ...named, ...Object.fromEntries(set) }, path }
}

function readPreset(preset: FusionPreset, path: string, { server_tools }: Config): Json {
  const { presets } = server_tools.fusion
  const panel = presets[preset]
  if (panel) return { ...panel }
  const known = Object.keys(presets).join(', ')
  throw invalid(
    `${path}.preset: expected a preset of server_tools.fusion.presets of the config` +
      (known === '' ? ', which has none' : `: ${known}`),
    `${path}.preset`,
  )
}

function offerPanel(
  world: ToolWorld,
  run: Run,
  { parameters, path }: FusionPluginOptions,
): Work[keyof Work]['call'] {
  if (run.call.kind !== 'text') return run.call
  requireTool(world, run, tool.name)
  const options = readFusionOptions(parameters, path, createToolReading(world, run))
  return offerTool(run.call, tool.name, options)
}

/** Picks the model that may ask the panel: the judge that is named, or what the auto router picks. */
function decide(world: ToolWorld, asked: RouterInputs): RouterDecision {
  const { plugins } = asked.call
  const options = plugins?.fusion as FusionPluginOptions | null | undefined
  const decision =
    options === null ? refuseWithoutPlugin() : decideModel(world, asked, options?.parameters.model)
  return { ...decision, stage: { ...decision.stage, name: 'fusion' } }
}

function decideModel(world: ToolWorld, asked: RouterInputs, named: unknown): RouterDecision {
  const slug = typeof named === 'string' ? named : world.config.server_tools.fusion.model
  if (slug === undefined) {
    const plugins = { ...asked.call.plugins, 'auto-router': {} }
    return decideAutoRoute(world, 'auto', { ...asked, call: { ...asked.call, plugins } })
  }
  const model = world.catalog.models.get(slug)
  if (!model)
    return refuse(`${slug.slice(0, 100)} cannot ask a panel: expected a model of the catalogue`)
  return decideRandomRoute(world, asked, [model])
}

const refuseWithoutPlugin = () => refuse('gateway/fusion needs its plugin, which is switched off')

const refuse = (message: string): RouterDecision => ({
  models: [],
  stage: { type: 'plugin', name: 'fusion', summary: message },
  refusal: new GatewayError('invalid_request', message),
})
