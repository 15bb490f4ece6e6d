import { defineNoun, defineOperation, defineTerminalOperation } from '../operation.ts'
import {
  getPreset,
  getPresetVersion,
  listPresets,
  listPresetVersions,
  updatePreset,
} from '../presets.ts'
import { PresetChange, PresetQuery } from './schema.ts'

const params = {
  slug: 'The preset’s name in URLs',
  version: 'The number of the version, from 1',
}
const refusals = [400]

/**
 * What can be done with the presets of the actor's workspace (specification E6). Each dialect makes
 * them from a body of its own.
 */
export const presets = defineNoun(
  { tag: 'Presets', access: 'key', params },
  {
    list: defineOperation('GET /presets', 'listPresets', 'List presets', listPresets, {
      query: PresetQuery,
    }),
    get: defineOperation(
      'GET /presets/:slug',
      'getPreset',
      'Get a preset in its designated version',
      getPreset,
      { refusals },
    ),
    versions: defineOperation(
      'GET /presets/:slug/versions',
      'listPresetVersions',
      'List the versions of a preset',
      listPresetVersions,
      { query: PresetQuery },
    ),
    version: defineOperation(
      'GET /presets/:slug/versions/:version',
      'getPresetVersion',
      'Get one version of a preset',
      getPresetVersion,
      { refusals },
    ),
    update: defineTerminalOperation(updatePreset, PresetChange),
  },
)
