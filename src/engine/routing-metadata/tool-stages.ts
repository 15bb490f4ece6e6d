import type { PipelineStage } from '../plan/candidates.ts'
import type { RecordedUse, Run, UsedTools } from '../run.ts'

/** Builds the entries of the tools that the gateway runs: one for each that the call asks for. */
export function buildToolStages(tools: UsedTools | null): PipelineStage[] {
  if (!tools) return []
  return tools.listTools().map(({ name, functions, uses, models }) => {
    const failed = uses.filter(({ result }) => result?.isError !== false).length
    const turns = uses.flatMap(listTurns)
    return {
      type: 'server_tools',
      name,
      summary: `uses=${uses.length}, failed=${failed}`,
      data: {
        ...{ functions, uses: uses.length, failed },
        ...(models.length > 0 ? { models } : {}),
        ...(turns.length > 0 ? { turns } : {}),
      },
    }
  })
}

/** Lists the turns of models that a use took, with those of uses within it. */
const listTurns = ({ invocation }: RecordedUse): { model: string; provider: string }[] =>
  (invocation?.run.inner ?? []).filter(({ within }) => within === invocation).flatMap(listRunTurns)

const listRunTurns = ({ steps, inner }: Run): { model: string; provider: string }[] => [
  ...steps.flatMap(({ answer }) =>
    answer ? [{ model: answer.endpoint.model, provider: answer.endpoint.provider.name }] : [],
  ),
  ...inner.flatMap(listRunTurns),
]
