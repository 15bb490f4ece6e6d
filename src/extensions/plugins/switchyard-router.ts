import type { Static } from '@sinclair/typebox'
import type { RouterDecision, RouterInputs } from '../../engine/plan/candidates.ts'
import { listTextModels } from '../../engine/plan/router-candidates.ts'
import type { RouterOptions } from '../../language/routing.ts'
import { type ALGORITHMS, SwitchyardRouter } from '../../translation/dialects/plugin-entries.ts'
import type { Plugin } from '../plugin.ts'
import type { ExtensionWorld } from '../world.ts'
import { decideAutoRoute } from './auto-router.ts'
import { decideRandomRoute } from './free-router.ts'

type Algorithm = (typeof ALGORITHMS)[number]

interface SwitchyardOptions {
  algorithm: Algorithm
}

/** The `switchyard-router` plugin, which decides for `switchyard` by one of several algorithms. */
export const switchyardRouter: Plugin<SwitchyardOptions> = {
  id: 'switchyard-router',
  schema: SwitchyardRouter,
  readOptions: entry => ({
    algorithm: (entry as Static<typeof SwitchyardRouter>).algorithm ?? 'auto',
  }),
  decide(world, asked) {
    const { algorithm } = getOptions(asked)
    const decision = DECIDE[algorithm](world, asked)
    const { data } = decision.stage
    return {
      ...decision,
      stage: { ...decision.stage, name: 'switchyard-router', data: { algorithm, ...data } },
    }
  },
}

const getOptions = ({ call }: RouterInputs): SwitchyardOptions =>
  (call.plugins?.['switchyard-router'] as SwitchyardOptions | undefined) ?? { algorithm: 'auto' }

type Decide = (world: ExtensionWorld, asked: RouterInputs) => RouterDecision

/** Decides as the auto router does with these options. */
const decideWith =
  (getOptions: (asked: RouterInputs) => RouterOptions): Decide =>
  (world, asked) => {
    const plugins = { ...asked.call.plugins, 'auto-router': getOptions(asked) }
    return decideAutoRoute(world, 'auto', { ...asked, call: { ...asked.call, plugins } })
  }

const DECIDE: Record<Algorithm, Decide> = {
  // The fittest model, whatever it costs.
  capability: decideWith(() => ({ tier: 'max' })),
  // A conversation is opened by a dear model and continued by a cheaper one.
  stage: decideWith(asked => ({ tier: isContinued(asked) ? 'medium' : 'xhigh' })),
  // As the auto router without options.
  auto: decideWith(() => ({})),
  // Any model that may serve the call.
  random: (world, asked) => decideRandomRoute(world, asked, listTextModels(world.catalog)),
  // As the auto router, with quality and price of the same weight.
  composite: decideWith(() => ({ tradeoff: 5 })),
  // As the auto router, as far as the default model of the gateway cannot serve the call.
  passthrough: (world, asked) => {
    const model = world.catalog.models.get(world.config.default_model)
    const decision = decideRandomRoute(world, asked, model ? [model] : [])
    return decision.refusal ? decideWith(() => ({}))(world, asked) : decision
  },
}

const isContinued = ({ call: { messages } }: RouterInputs) =>
  messages.some(({ role }) => role === 'assistant')
