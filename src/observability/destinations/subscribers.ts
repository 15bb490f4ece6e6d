import type { Region } from '../../language/call.ts'
import type { Actor } from '../../resources/actor.ts'
import type { OpenedDestination } from './opened.ts'
import { getOperatorDestination, isOperators } from './operator.ts'
import type { Destination } from './store.ts'
import type { DestinationWorld } from './world.ts'

/** What decides, without its content, which destinations are told of a call. */
interface CallIdentity {
  id: string
  workspace_id: string
  key_hash: string | null
  region: Region
  session_id: string | null
}

/**
 * Lists the destinations that are told of a call, as far as its content does not decide. Costs one
 * lookup where the workspace has none.
 */
export function listSubscribers(
  world: Pick<DestinationWorld, 'memory' | 'config'>,
  { workspace_id, key_hash }: Pick<Actor, 'workspace_id' | 'key_hash'>,
  call: { id: string; session_id: string | null; origin: { region: Region } },
): OpenedDestination[] {
  const operators = getOperatorDestination(world)
  const own = listOwn(world, workspace_id)
  if (own.length === 0 && operators === null) return NONE
  const { id, session_id, origin } = call
  const identity = { id, session_id, workspace_id, key_hash, region: origin.region }
  const all = operators === null ? own : [...own, operators]
  return all.filter(opened => isActive(opened) && isAddressed(opened, identity))
}

/** Lists the destinations of a workspace that broadcasts its calls. */
function listOwn(
  { memory }: Pick<DestinationWorld, 'memory'>,
  workspace_id: string,
): OpenedDestination[] {
  const own = memory.destinations.listByWorkspace(workspace_id)
  if (own.length === 0) return own
  const isOn = memory.workspaces.get(workspace_id)?.is_observability_broadcast_enabled ?? false
  return isOn ? own : NONE
}

const NONE: OpenedDestination[] = []

/** Whether the destination is told of calls at all. */
export const isActive = ({ destination, kind, config }: OpenedDestination): boolean =>
  destination.enabled && kind !== null && config !== null

/** Whether the destination is told of this call: by its region, its key and its sample. */
export const isAddressed = (
  { destination }: { destination: Addressee },
  call: CallIdentity,
): boolean =>
  (isOperators({ destination }) || isChosen(destination, call)) &&
  isSampled(destination, call.session_id ?? call.id)

/** The settings that decide, without its content, whether a destination is told of a call. */
type Addressee = Pick<Destination, 'id' | 'regions' | 'api_key_hashes' | 'sampling_rate'>

const isChosen = (
  { regions, api_key_hashes }: Addressee,
  { region, key_hash }: CallIdentity,
): boolean =>
  regions.includes(region) &&
  (api_key_hashes === null || (key_hash !== null && api_key_hashes.includes(key_hash)))

/** 2 to the power of 32. */
const RANGE = 0x1_0000_0000

/**
 * Tells whether a session, or a call without one, is in a destination's sample. The same session
 * always gets the same answer, from every gateway.
 */
export function isSampled(
  { id, sampling_rate }: Pick<Destination, 'id' | 'sampling_rate'>,
  session: string,
): boolean {
  if (sampling_rate >= 1) return true
  const digest = new Bun.CryptoHasher('sha256').update(`${id}\0${session}`).digest()
  return digest.readUInt32BE(0) < sampling_rate * RANGE
}
