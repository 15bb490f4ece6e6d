import { Option } from 'commander'
import { invalid } from '../../base/errors.ts'
import { CUT, demand, type Fields, fill, fillNamed, fillWorkspace, PAGE } from '../fields.ts'
import { MAPPINGS, SCIM_GROUPS, SCIM_TOKENS } from '../names.ts'
import { defineNoun, defineVerbs, printDeleted, withInput } from '../noun.ts'
import { print, printNote } from '../output.ts'

const tokenVerb = defineVerbs(() => import('../../resources/scim/tokens.ts'), {
  args: { id: 'its id, name or label, or a beginning of one' },
  names: { id: SCIM_TOKENS },
})
const load = () => import('../../resources/scim/operations.ts')
const groupVerb = defineVerbs(async () => (await load()).groups.operations)
const mappingVerb = defineVerbs(async () => (await load()).mappings.operations, {
  args: { id: 'its id, or a beginning of it' },
  names: { id: MAPPINGS },
})
const jobVerb = defineVerbs(async () => (await load()).syncJobs.operations)

const NEW_TOKEN = [demand(fill('name', '--name <name>', 'its name'))]
const ROLE = demand(fill('role', '--role <role>', 'admin or member'))
const NEW_MAPPING = [
  demand(fillNamed('scim_group_id', '--group <group>', 'the group, by id or name', SCIM_GROUPS)),
  demand(fillWorkspace('the workspace, by id or slug')),
  ROLE,
]
const DELETION: Fields = {
  options: [
    new Option('--keep-members', 'keep its members in the workspace, as if added by hand'),
    new Option('--remove-members', 'remove its members, except those of another mapping'),
  ],
  read: ({ keepMembers, removeMembers }: { keepMembers?: boolean; removeMembers?: boolean }) => {
    if (keepMembers === removeMembers) throw invalid('expected --keep-members or --remove-members')
    return { keep_members: keepMembers ? 'true' : 'false' }
  },
}

/**
 * `gateway scim`: the tokens of an identity provider, its groups, and their mappings to workspaces.
 */
export const createScimCommand = () =>
  defineNoun(
    'scim',
    'an identity provider: its tokens, its groups, and their mappings to workspaces',
    [createTokenCommands(), createGroupCommands(), createMappingCommands(), createSyncCommand()],
  )

const createTokenCommands = () =>
  defineNoun('token', 'tokens of an identity provider; several may be valid at a time', [
    tokenVerb('create', 'create a token and print it once', NEW_TOKEN, core =>
      withInput(core.NewScimToken, core.createScimToken),
    ).printAs(({ token, data }) => {
      print(token)
      printNote(`This token is shown once. Its id is ${data.id}`)
    }),
    tokenVerb(
      'list',
      'list the tokens, never their secrets',
      [CUT],
      core => core.listScimTokens,
    ).printAs({
      NAME: token => token.name,
      LABEL: token => token.label,
      CREATED: token => token.created_at,
      ID: token => token.id,
    }),
    tokenVerb('revoke <id>', 'revoke a token', [], core => core.revokeScimToken).printAs(
      (_, { named }) => print(`Revoked ${named}`),
    ),
  ])

const createGroupCommands = () =>
  defineNoun('groups', 'the identity provider’s groups', [
    groupVerb('list', 'list the groups', PAGE, core => core.list).printAs({
      NAME: group => group.display_name,
      'EXTERNAL ID': group => group.external_id,
      ID: group => group.id,
    }),
  ])

const createMappingCommands = () =>
  defineNoun('mappings', 'mappings of groups to workspaces and roles', [
    mappingVerb('create', 'map a group to a workspace', NEW_MAPPING, core => core.create),
    mappingVerb('list', 'list the mappings', PAGE, core => core.list).printAs({
      GROUP: mapping => mapping.scim_group_id,
      WORKSPACE: mapping => mapping.workspace_id,
      ROLE: mapping => mapping.role,
      ID: mapping => mapping.id,
    }),
    mappingVerb('get <id>', 'show a mapping', [], core => core.get),
    mappingVerb('update <id>', 'change the role of a mapping', [ROLE], core => core.update),
    mappingVerb(
      'delete <id>',
      'delete a mapping, and keep or remove its members',
      [DELETION],
      core => core.delete,
    ).printAs(printDeleted),
  ])

const createSyncCommand = () =>
  jobVerb('sync', 'apply every mapping again', [], core => async (gateway, actor) => {
    const finished = await core.finish.run(gateway, actor)
    if (finished.data.status === 'failed') process.exitCode = 1
    return finished
  })
