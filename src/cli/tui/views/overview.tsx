import { Lines } from '../lines.tsx'
import { renderOverview } from '../models/overview.ts'
import type { ViewProps } from '../view.ts'

/** Overview: what the server is doing, the last minutes, and alarms. */
export const OverviewView = ({ live, width, height }: ViewProps) => (
  <Lines height={height} lines={renderOverview(live, width, height)} />
)
