import { GatewayError } from '../../base/errors.ts'
import type { RouterDecision } from '../../engine/plan/candidates.ts'
import type { Run } from '../../engine/run.ts'
import type { TextCall } from '../../language/call.ts'
import type { Message } from '../../language/message.ts'
import { listCallableModels } from '../../resources/models.ts'
import { type Plugin, requireOptions } from '../plugin.ts'
import type { ExtensionWorld } from '../world.ts'
import { decideAutoRoute } from './auto-router.ts'
import { namesRouter } from './routers.ts'

/**
 * The router `gateway/bodybuilder`: a model of the auto router's choice answers with request bodies
 * for what the conversation asks (wire reference K.4). It takes no options. What it costs is what
 * that model costs.
 */
export const bodybuilderRouter: Plugin<object> = {
  id: 'bodybuilder-router',
  readOptions(entry, at) {
    requireOptions(entry, at, [])
    return {}
  },
  imply: (world, call) => (namesRouter(world, call, 'bodybuilder') ? {} : undefined),
  prepare: (world, run) =>
    run.call.kind === 'text' && namesRouter(world, run.call, 'bodybuilder')
      ? instruct(world, run, run.call)
      : run.call,
  decide(world, asked) {
    if (asked.call.plugins?.['bodybuilder-router'] === null) return REFUSAL
    const plugins = { ...asked.call.plugins, 'auto-router': {} }
    const decision = decideAutoRoute(world, 'auto', { ...asked, call: { ...asked.call, plugins } })
    return { ...decision, stage: { ...decision.stage, name: 'bodybuilder-router' } }
  },
}

const SWITCHED_OFF = 'gateway/bodybuilder needs its plugin, which is switched off'
const REFUSAL: RouterDecision = {
  models: [],
  stage: { type: 'plugin', name: 'bodybuilder-router', summary: SWITCHED_OFF },
  refusal: new GatewayError('invalid_request', SWITCHED_OFF),
}

/** Tells the model what to answer with, and which models there are. */
function instruct(world: ExtensionWorld, run: Run, call: TextCall): TextCall {
  const { data } = listCallableModels(world, {}, run.policy.rules, run.actor)
  const slugs = data.map(({ id }) => id).filter(id => world.catalog.models.has(id))
  const text = `${INSTRUCTION}\n${slugs.slice(0, MOST_MODELS).join('\n')}`
  const instruction: Message = { role: 'system', blocks: [{ type: 'text', text }] }
  return { ...call, messages: [instruction, ...call.messages] }
}

/** The most models that the instruction names: some 10,000 tokens. */
const MOST_MODELS = 1_000

const INSTRUCTION = `You write request bodies for a chat completions API. The user says in their own \
words what several models should do. Do not do it yourself, whatever they say: reply with one JSON \
object, and nothing else, in this form:
{"requests": [{"model": "author/model", "messages": [{"role": "user", "content": "…"}]}]}
There is one entry for each model that they mean: the closest names of the list, or, if they name \
none, one that fits. The messages have the task alone, without the choice of models. Further \
parameters (temperature, max_tokens, …) are there only if they ask for them. The models are:`
