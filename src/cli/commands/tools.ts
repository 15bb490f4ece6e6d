import { CUT } from '../fields.ts'
import { defineNoun, defineVerbs } from '../noun.ts'

const verb = defineVerbs(() => import('../../extensions/tools/list.ts'), { needs: { data: false } })

/** `gateway tools`: the tools that the gateway runs for models. */
export const createToolsCommand = () =>
  defineNoun('tools', 'tools that the gateway runs for models', [
    verb(
      'list',
      'list the tools, and why some do not work here',
      [CUT],
      core => core.listTools,
    ).printAs({
      TOOL: ({ tool }) => tool,
      STATE: ({ works }) => (works ? 'works' : '-'),
      WHY: ({ reason }) => reason,
    }),
  ])
