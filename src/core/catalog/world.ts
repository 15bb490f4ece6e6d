import type { Events } from '../events.ts'
import type { IdentityWorld } from '../identity/world.ts'
import type { Mirror } from '../kernel/mirror.ts'
import type { Seal } from '../kernel/seal.ts'
import type { DecryptedKeys } from './byok/decrypted-keys.ts'
import type { ByokStore } from './byok/store.ts'
import type { EndpointStats } from './models/view.ts'
import type { Catalog, Endpoint } from './models.ts'
import type { DesignatedPreset, PresetStore } from './presets/store.ts'

/** What this wing needs from the gateway. */
export interface CatalogWorld extends IdentityWorld {
  catalog: Catalog
  store: IdentityWorld['store'] & { byok: ByokStore; presets: PresetStore }
  memory: IdentityWorld['memory'] & { byok: DecryptedKeys; presets: Mirror<DesignatedPreset> }
  secrets: IdentityWorld['secrets'] & { seal: () => Seal }
  traffic: IdentityWorld['traffic'] & { health: { getStats(endpoint: Endpoint): EndpointStats } }
  events: Events
}
