package sealed

import (
	"context"

	"gorm.io/gorm"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaultsql"
)

// CreateWithGORM writes a customer and its tokens in one transaction.
func CreateWithGORM(ctx context.Context, db *gorm.DB, c *vault.Client, cust *Customer) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := vaultsql.Seal(ctx, c.InTx(tx.Statement.ConnPool.(vault.Tx)), cust); err != nil {
			return err
		}
		return tx.Create(cust).Error
	})
}

// FindWithGORM returns the customers with an email address, opened.
func FindWithGORM(ctx context.Context, db *gorm.DB, c vault.API, email string) ([]Customer, error) {
	ids, err := vaultsql.Lookup(ctx, c, Customer{}, "Email", email)
	if err != nil {
		return nil, err
	}
	var found []Customer
	if err := db.WithContext(ctx).Where("email IN ?", ids).Order("id").Find(&found).Error; err != nil {
		return nil, err
	}
	return found, vaultsql.Open(ctx, c, found)
}
