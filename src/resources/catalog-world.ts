import type { Events } from '../base/events.ts'
import type { Mirror } from '../base/mirror.ts'
import type { Seal } from '../base/seal.ts'
import type { DecryptedKeys } from './byok/decrypted-keys.ts'
import type { ByokStore } from './byok/store.ts'
import type { Catalog, Endpoint, EndpointStats } from './models/catalog.ts'
import type { DesignatedPreset, PresetStore } from './presets/store.ts'
import type { IdentityWorld } from './world.ts'

/** What this room needs from the gateway. */
export interface CatalogWorld extends IdentityWorld {
  catalog: Catalog
  store: IdentityWorld['store'] & { byok: ByokStore; presets: PresetStore }
  memory: IdentityWorld['memory'] & { byok: DecryptedKeys; presets: Mirror<DesignatedPreset> }
  secrets: IdentityWorld['secrets'] & { seal: () => Seal }
  traffic: IdentityWorld['traffic'] & { health: { getStats(endpoint: Endpoint): EndpointStats } }
  events: Events
}
