/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys for Azure Blob Storage, from the first source that has some. Private to storage/.
 *
 *     environment         AZURE_STORAGE_KEY (the account's), or AZURE_STORAGE_SAS_TOKEN
 *     workload identity   AZURE_FEDERATED_TOKEN_FILE, AZURE_CLIENT_ID, AZURE_TENANT_ID; AZURE_AUTHORITY_HOST
 *     managed identity    the metadata service of a virtual machine, at AZURE_POD_IDENTITY_AUTHORITY_HOST; AZURE_CLIENT_ID where there
 *                         are several identities
 */
#ifndef STORAGE_AZ_KEYS_H
#define STORAGE_AZ_KEYS_H

#include "storage/cloud_keys.h"

/* `ca_file` NULL = the system's; copied. */
struct keys_chain *az_chain_new(const char *ca_file);

#endif
