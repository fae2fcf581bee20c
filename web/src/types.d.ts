// SPDX-License-Identifier: Apache-2.0
// The bundler takes style sheets as modules.
declare module "*.css";
