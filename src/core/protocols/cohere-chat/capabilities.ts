import type { Endpoint } from '../../catalog/models.ts'
import { CAPABILITIES, type Capabilities, NEWEST } from './capabilities.data.ts'

/** What the model of this endpoint takes. */
export const capabilitiesOf = ({ upstreamModel }: Endpoint): Capabilities =>
  CAPABILITIES.find(([model]) => model.test(upstreamModel))?.[1] ?? NEWEST
