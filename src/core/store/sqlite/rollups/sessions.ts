import type { Database } from 'bun:sqlite'
import {
  type CellBounds,
  FEWEST_TURNS,
  type SessionCell,
  TURN_RANGES,
  type TurnRange,
} from '../../../telemetry/rollups/sessions.ts'

interface Row {
  id: number
  identity: string
  name: string
  slug: string
  model: string
  turn_range: number
  sessions: number
  median: number
}

// The largest range whose fewest turns a session has, as a place in the list.
const RANGE = `case ${FEWEST_TURNS.map((fewest, i) => `when turns >= ${fewest} then ${i}`)
  .toReversed()
  .join(' ')} end`

// By app, so that each has its own medians and none waits for the others' sessions. A session is of
// the workspace of its key; those of keys that are deleted count for no workspace.
const CELLS = `select apps.id, apps.identity, apps.name, apps.slug, model, ${RANGE} as turn_range,
  count(*) as sessions, median(cost) as median
  from usage_sessions join apps on apps.id = usage_sessions.app_id
  left join keys on keys.hash = usage_sessions.key_hash
  where week = $week and turns > 0 and unpriced_calls = 0
  and ($workspace is null or keys.workspace_id = $workspace)
  group by apps.id, model, turn_range
  having count(*) >= $sessions and count(distinct keys.workspace_id) >= $workspaces
  order by apps.slug, model, turn_range`

/** Creates the reader of the cells of a week. */
export const createCellReader =
  (db: Database) =>
  ($week: number, { sessions, workspaces, workspace_id }: CellBounds): SessionCell[] =>
    db
      .query<Row, [Record<string, string | number | null>]>(CELLS)
      .all({ $week, $sessions: sessions, $workspaces: workspaces, $workspace: workspace_id })
      .map(toCell)

const toCell = ({ model, turn_range, sessions, median, ...app }: Row): SessionCell => ({
  app,
  model,
  turn_range: TURN_RANGES[turn_range] as TurnRange,
  sessions,
  median,
})
