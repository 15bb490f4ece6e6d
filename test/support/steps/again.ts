import type { Plugin } from '../../../src/core/inference/plugin.ts'
import type { TextCall } from '../../../src/core/language/call.ts'

/** What the plugin asks after the first step. */
export const SECOND = 'And again'

/** A plugin of the tests: asks the model as often as its entry says, once more with each answer. */
export const again: Plugin<{ steps: number }> = {
  id: 'again',
  read: ({ steps }) => ({ steps: typeof steps === 'number' ? steps : 2 }),
  around(_, step, { steps }) {
    if (step.number >= steps || step.call.kind !== 'text') return null
    return asking(step.call)
  },
}

const asking = (call: TextCall): TextCall => ({
  ...call,
  turns: [...call.turns, { role: 'user', blocks: [{ type: 'text', text: SECOND }] }],
})
