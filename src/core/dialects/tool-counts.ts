import type { ServerToolCounts } from '../language/server-tools.ts'

/** Renders how often the gateway's own tools were used (wire reference A.9). */
export const renderToolCounts = ({ requested, executed, searches, endedBy }: ServerToolCounts) => ({
  tool_calls_requested: requested,
  tool_calls_executed: executed,
  web_search_requests: searches,
  ...(endedBy === undefined ? {} : { ended_by: endedBy }),
})
