import type { Plugin } from '../../../src/extensions/plugin.ts'
import type { TextCall } from '../../../src/language/call.ts'

/** The message that the plugin sends after the first step. */
export const SECOND = 'And again'

/** A test plugin: calls the model as many times as its entry says, with each answer appended. */
export const again: Plugin<{ steps: number }> = {
  id: 'again',
  readOptions: ({ steps }) => ({ steps: typeof steps === 'number' ? steps : 2 }),
  around(_, step, { steps }) {
    if (step.number >= steps || step.call.kind !== 'text') return null
    return askAgain(step.call)
  },
}

const askAgain = (call: TextCall): TextCall => ({
  ...call,
  messages: [...call.messages, { role: 'user', blocks: [{ type: 'text', text: SECOND }] }],
})
