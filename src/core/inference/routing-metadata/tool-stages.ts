import type { PipelineStage } from '../routing-metadata.ts'
import type { ToolLoop } from '../server-tool/loop.ts'

/** Builds the entries of the tools that the gateway runs: one for each that the call asks for. */
export function buildToolStages(loop: ToolLoop | null): PipelineStage[] {
  if (!loop) return []
  return loop.listTools().map(({ name, functions, uses }) => {
    const failed = uses.filter(({ result }) => result?.isError !== false).length
    return {
      type: 'server_tools',
      name,
      summary: `uses=${uses.length}, failed=${failed}`,
      data: { functions, uses: uses.length, failed },
    }
  })
}
